// Functions that the server calls in the browser: theme, link in the address bar, clipboard, saving a picture.
const explorer = {
  theme(name) {
    if (["light", "dark"].includes(name)) localStorage.setItem("rasf-theme", name);
    else localStorage.removeItem("rasf-theme");
    setDark(name === "dark" ? true : name === "light" ? false : null);
  },
  chosenTheme() {
    return localStorage.getItem("rasf-theme") ?? "auto";
  },
  link(query) {
    const link = "?" + query;
    const view = (search) => new URLSearchParams(search).get("view");
    const before = view(location.search);
    if (before && before !== view(link)) history.pushState(null, "", link);
    else if (location.search !== link) history.replaceState(history.state, "", link);
  },
  async copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      return true;
    } catch {
      return false;
    }
  },
  place(event) {
    // the position of a click, in units of the picture
    const svg = event.currentTarget.querySelector("svg");
    if (!svg) return null;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [at.x, at.y];
  },
  key(event, emit) {
    const known = ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "Enter", " "];
    if (!known.includes(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    emit(event.key);
  },
  async savePng(id, filename) {
    const svg = document.querySelector(`#${id} svg`).cloneNode(true);
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const scale = 1600 / width;
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
    svg.classList.add(document.body.classList.contains("body--dark") ? "dark" : "light");
    const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: width * scale, height: height * scale });
    canvas.getContext("2d").drawImage(image, 0, 0);
    URL.revokeObjectURL(url);
    canvas.toBlob((blob) => {
      const anchor = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: filename });
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
    }, "image/png");
  },
};
window.explorer = explorer;

// Back and Forward change the address; loading the page again shows the view of this address
window.addEventListener("popstate", () => location.reload());

document.addEventListener("keydown", (event) => {
  const panel = event.key === "Escape" && document.querySelector("details.open-file[open]");
  if (!panel) return;
  panel.open = false;
  panel.querySelector("summary").focus();
});

// with many views, the button that opens the panel is far right: move the panel into the window
document.addEventListener(
  "toggle",
  (event) => {
    const panel = event.target.open && event.target.querySelector(".open-panel");
    if (!panel) return;
    panel.style.translate = "";
    panel.style.translate = `${Math.min(0, innerWidth - 16 - panel.getBoundingClientRect().right)}px 0`;
  },
  true,
);
