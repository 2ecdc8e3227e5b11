// A labelled slider with a number beside it. If the page is updated while the user moves the slider or types a number,
// the slider keeps its value and the number its text. To override the value, the server sends a new `stamp`.
const short = (value) => String(Number(value.toFixed(4)));

export default {
  props: {
    label: String, value: Number, stamp: Number, low: Number, high: Number, step: Number,
    neutral: Number, ends: Array, parameter: String,
  },
  data() {
    return { local: this.value, text: short(this.value) };
  },
  watch: {
    stamp() {
      this.local = this.value;
    },
    local(value) {
      this.text = short(value);
    },
  },
  computed: {
    id() {
      return this.$attrs.id + "-range";
    },
    shown() {
      return short(this.local);
    },
    share() {
      return (x) => Math.min(Math.max((x - this.low) / (this.high - this.low || 1), 0), 1);
    },
    words() {
      if (this.neutral === undefined) return this.shown;
      const side = this.local < this.neutral ? "risk averse" : this.local > this.neutral ? "risk seeking" : "neutral";
      return `${this.parameter} ${this.shown}, ${side}`;
    },
  },
  methods: {
    take(value) {
      this.local = Math.min(Math.max(value, this.low), this.high);
      this.$emit("pick", this.local);
    },
    typed() {
      const value = Number(this.text);
      if (this.text !== "" && Number.isFinite(value) && this.text !== this.shown) this.take(value);
      this.text = this.shown;
    },
  },
  template: `
    <div class="slider-field" :style="{'--share': share(local), '--zero': share(neutral ?? 0)}">
      <div class="slider-head">
        <label :for="id">{{ label }}</label>
        <input class="number" type="number" step="any" :min="low" :max="high" :value="text" :aria-label="label + ', as a number'"
               @input="text = $event.target.value" @change="typed" @keydown.enter="typed">
      </div>
      <div class="slider-track">
        <span v-if="neutral !== undefined" class="slider-zero" aria-hidden="true"></span>
        <input type="range" :id="id" :min="low" :max="high" :step="step" :value="local" :aria-valuetext="words"
               @input="take(Number($event.target.value))">
      </div>
      <div v-if="ends" class="slider-ends" aria-hidden="true">
        <span v-for="end in ends" :style="{left: 100 * share(end[0]) + '%'}"
              :class="{first: end[0] <= low, last: end[0] >= high, 'near-end': share(end[0]) > 0.6 && end[0] < high}">{{ end[1] }}</span>
      </div>
    </div>`,
};
