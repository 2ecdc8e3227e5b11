// Plays rollouts in the browser: moves the elements of the picture with class agent (on a map), link1, link2, elbow and
// tip (of an arm), or the elements of a road with `data-mover`. `frames` has an array for each step, in coordinates of
// the moved element's parent: x and y of the agent; x and y of shoulder, elbow and tip; or x, y, degrees and crashed of
// each mover, null if the mover is not on the road. The server receives `scrub` when the context (collected objects)
// changes or the player stops. The server responds with a new picture, in which the elements are then moved to the step.
export default {
  props: { kind: String, frames: Array, contexts: Array, picture: String, rollouts: Number, rollout: Number,
           at: Number, stamp: Number, rate: Number },
  data() {
    return { step: this.at, playing: false };
  },
  watch: {
    stamp() {
      this.pause();
      this.step = Math.min(this.at, this.last);
      this.$nextTick(() => this.place());
    },
  },
  computed: {
    last() {
      return Math.max(this.frames.length - 1, 0);
    },
    id() {
      return this.$attrs.id + "-step";
    },
  },
  mounted() {
    const picture = document.getElementById(this.picture);
    picture?.addEventListener("drawn", this.place);
    this.place();
  },
  unmounted() {
    this.pause();
    document.getElementById(this.picture)?.removeEventListener("drawn", this.place);
  },
  methods: {
    toggle() {
      if (this.playing) return this.rest();
      if (this.step >= this.last) this.step = 0;
      this.playing = true;
      document.getElementById(this.picture)?.classList.add("playing");
      this.$emit("play");
      const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      const wait = 1000 / (still ? Math.min(this.rate, 2) : this.rate);
      this.timer = setInterval(() => this.advance(), wait);
    },
    pause() {
      clearInterval(this.timer);
      this.playing = false;
      document.getElementById(this.picture)?.classList.remove("playing");
    },
    rest() {
      this.pause();
      this.tell();
    },
    advance() {
      if (this.step >= this.last) return this.rest();
      this.go(this.step + 1);
    },
    scrub(step) {
      this.pause();
      this.go(step);
      this.tell();
    },
    go(step) {
      const before = this.contexts[this.step];
      this.step = step;
      this.place();
      if (this.contexts[step] !== before) this.tell();
    },
    tell() {
      this.$emit("scrub", this.step);
    },
    place() {
      const frame = this.frames[this.step];
      const picture = document.getElementById(this.picture);
      if (!frame || !picture) return;
      const set = (name, values) => {
        for (const mover of picture.querySelectorAll("." + name))
          for (const [key, value] of Object.entries(values)) mover.setAttribute(key, value);
      };
      if (this.kind === "road") return this.drive(picture, frame);
      if (this.kind === "map") return set("agent", { transform: `translate(${frame[0]},${frame[1]})` });
      const [sx, sy, ex, ey, tx, ty] = frame;
      set("link1", { x1: sx, y1: sy, x2: ex, y2: ey });
      set("link2", { x1: ex, y1: ey, x2: tx, y2: ty });
      set("tip", { cx: tx, cy: ty });
      set("elbow", { cx: ex, cy: ey });
    },
    drive(picture, frame) {
      for (const mover of picture.querySelectorAll("[data-mover]")) {
        const [x, y, angle, crashed] = frame.slice(4 * mover.dataset.mover);
        if (x == null) {
          mover.setAttribute("display", "none");
          continue;
        }
        mover.removeAttribute("display");
        mover.setAttribute("transform", `translate(${x} ${y})` + (angle ? ` rotate(${angle})` : ""));
        mover.classList.toggle("crashed", crashed > 0);
      }
    },
  },
  template: `
    <div class="playback" role="group" aria-label="Playback of rollouts">
      <button type="button" class="button play" :disabled="!last" @click="toggle">{{ playing ? "Pause" : "Play" }}</button>
      <label class="only-heard" :for="id">Step of the rollout</label>
      <input type="range" :id="id" min="0" :max="last" step="1" :value="step" :disabled="!last"
             @input="scrub(Number($event.target.value))">
      <output class="steps">{{ last ? "step " + step + " of " + last : "no rollout yet" }}</output>
      <label class="rollout">Rollout
        <select :value="rollout" :disabled="!rollouts" @change="$emit('rollout', Number($event.target.value))">
          <option v-for="n in rollouts" :value="n - 1">{{ n }}</option>
        </select>
      </label>
    </div>`,
};
