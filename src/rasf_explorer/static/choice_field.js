// A choice of few options: radio buttons in one row. To override the value, the server sends a new `stamp`. With `theme`
// the choice is the colour theme, which this component applies and only the browser stores.
export default {
  props: { label: String, options: Array, value: String, stamp: Number, theme: Boolean },
  data() {
    return { local: this.theme ? explorer.chosenTheme() : this.value };
  },
  watch: {
    stamp() {
      this.local = this.value;
    },
  },
  mounted() {
    if (this.theme) explorer.theme(this.local);
  },
  methods: {
    take(value) {
      this.local = value;
      if (this.theme) return explorer.theme(value);
      this.$emit("pick", value);
    },
  },
  template: `
    <fieldset class="choice-field">
      <legend class="only-heard">{{ label }}</legend>
      <div class="choice-row">
        <label v-for="option in options" :class="{chosen: option[0] === local}">
          <input type="radio" :name="$attrs.id" :value="option[0]" :checked="option[0] === local" @change="take(option[0])">
          <span>{{ option[1] }}</span>
        </label>
      </div>
    </fieldset>`,
};
