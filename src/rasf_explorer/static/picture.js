// A picture that is updated in place: unchanged nodes are kept, so that the browser repaints little. After every change
// the picture emits "drawn", so that the player can move elements to the current step again.
function follow(now, next) {
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name)) now.removeAttribute(name);
  for (const { name, value } of next.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  const before = [...now.childNodes];
  const after = [...next.childNodes];
  after.forEach((node, i) => {
    const old = before[i];
    if (!old) now.appendChild(node);
    else if (old.isEqualNode(node)) return;
    else if (old.nodeName === node.nodeName && old instanceof Element) follow(old, node);
    else now.replaceChild(node, old);
  });
  before.slice(after.length).forEach((old) => old.remove());
}

export default {
  props: { svg: String },
  watch: {
    svg() {
      this.draw();
    },
  },
  mounted() {
    this.draw();
  },
  methods: {
    draw() {
      const parsed = document.createElement("template");
      parsed.innerHTML = this.svg;
      const next = parsed.content.firstElementChild;
      const now = this.$el.firstElementChild;
      if (now && next) follow(now, next);
      else this.$el.replaceChildren(...parsed.content.childNodes);
      this.$el.dispatchEvent(new Event("drawn"));
    },
  },
  template: `<div></div>`,
};
