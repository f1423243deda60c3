// <weft-site src="picture.json?by=leaf">: the whole site on a canvas, a square for each node, a frame for each leaf or
// rack. The page's table shows the same without it. The color is by what is chosen, and changes without drawing anything
// else again; a click leads to the node. It is read again every half minute while it is visible.
"use strict";

const PALETTE = ["#0b5394", "#b45f06", "#38761d", "#741b47", "#134f5c", "#7f6000", "#5b0f00", "#20124d", "#1b6e6e", "#7a1f6b"];
const FREE = "#8a939d";
const AGAIN = 30000; // milliseconds
const NAME = 10; // pixels of the letters of a frame's name
const DARK = matchMedia("(prefers-color-scheme: dark)");

class WeftSite extends HTMLElement {
  async connectedCallback() {
    this.status = this.querySelector("[role=status]");
    this.canvas = this.querySelector("canvas");
    this.select = this.querySelector("select");
    this.legend = this.querySelector("ul");
    try {
      await this.read();
    } catch (error) {
      this.status.textContent = `The picture can't be drawn (${error.message}). The table below says the same.`;
      return;
    }
    this.canvas.hidden = false;
    this.select.closest("p").hidden = false;
    this.select.addEventListener("change", () => this.choose());
    this.canvas.addEventListener("click", (event) => this.go(event));
    this.canvas.addEventListener("pointermove", (event) => this.entitle(event));
    DARK.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this);
    this.timer = setInterval(() => this.again(), AGAIN);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }

  /** Whether there is anything new: the server sends no document if the last one's tag is still valid. */
  async read() {
    const headers = this.tag ? { "If-None-Match": this.tag } : {};
    // A request without an answer by the time of the next one is aborted: they would pile up.
    const signal = this.at ? AbortSignal.timeout(AGAIN) : undefined;
    const answer = await fetch(this.getAttribute("src"), { credentials: "same-origin", cache: "no-store", headers, signal });
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      [this.site, this.tag, this.drawn] = [await answer.json(), answer.headers.get("ETag"), undefined];
    }
    this.at = new Date();
    return answer.status !== 304;
  }

  /** Loads are asked of the fabrics only while they are shown. */
  async readLoads() {
    const answer = await fetch(this.getAttribute("loads"), { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(AGAIN) });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const found = await answer.json(), unknown = found.values.length;
    this.site.values.load = [...found.values, "not known"];
    this.site.fixed.load = { ...found.fixed, "not known": FREE };
    this.site.colors.load = this.site.nodes.map((node) => (Object.hasOwn(found.nodes, node) ? found.nodes[node] : unknown));
    this.unread = Object.entries(found.unread).map(([fabric, why]) => ` Fabric ${fabric} isn't known: ${why}.`).join("");
  }

  async choose() {
    const by = this.select.value;
    if (by === "load") {
      this.status.textContent = "Asking the fabrics what their ports count…";
      try {
        await this.readLoads();
      } catch (error) {
        this.status.textContent = `The load isn't known (${error.message}).`;
        return;
      }
      if (this.select.value !== by) return;
    }
    this.draw();
  }

  async again() {
    if (document.hidden) return;
    try {
      const news = await this.read(), load = this.select.value === "load";
      if (load) await this.readLoads();
      if (news || load) this.draw();
      else this.explain();
    } catch (error) {
      this.status.textContent = `Not read again since ${this.time()} (${error.message}): load the page again.`;
    }
  }

  time() {
    return `${this.at.toISOString().slice(11, 19)} UTC`;
  }

  /** Place boxes side by side in rows, and nodes in the columns of a box. */
  place(width) {
    const count = this.site.nodes.length;
    this.size = count > 4000 ? 5 : count > 1000 ? 7 : 12;
    const step = this.size + 1, gap = 6, head = NAME + 2;
    this.spots = [];
    this.frames = [];
    let x = 0, y = 0, tall = 0, first = 0;
    for (const box of this.site.boxes) {
      const columns = Math.max(1, Math.ceil(Math.sqrt(box.nodes))), lines = Math.ceil(box.nodes / columns);
      const wide = columns * step + gap;
      if (x + wide > width && x) [x, y, tall] = [0, y + tall, 0];
      this.frames.push({ name: box.name, x, y, width: wide - 2, height: head + lines * step + gap - 2, first, nodes: box.nodes });
      for (let i = 0; i < box.nodes; i += 1)
        this.spots[first + i] = [x + 2 + (i % columns) * step, y + head + 2 + Math.floor(i / columns) * step];
      first += box.nodes;
      x += wide;
      tall = Math.max(tall, head + lines * step + gap);
    }
    this.tall = y + tall;
  }

  draw() {
    if (!this.site.values[this.select.value]) return; // its loads are still being read
    const width = Math.max(200, this.clientWidth), scale = devicePixelRatio || 1;
    if (width !== this.drawn) this.place(width);
    this.drawn = width;
    this.canvas.width = width * scale;
    this.canvas.height = this.tall * scale;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(this);
    pen.strokeStyle = style.getPropertyValue("--line");
    pen.fillStyle = style.getPropertyValue("--front");
    pen.font = `${NAME}px ${style.fontFamily}`;
    for (const frame of this.frames) {
      pen.strokeRect(frame.x + 0.5, frame.y + 0.5, frame.width, frame.height);
      pen.fillText(this.shortened(pen, frame), frame.x + 2, frame.y + NAME);
    }
    const by = this.select.value, values = this.site.values[by], index = this.site.colors[by];
    const names = new Map();
    for (let n = 0; n < this.spots.length; n += 1) {
      const value = values[index[n]];
      if (!names.has(value)) names.set(value, [this.color(by, value, names.size), 0]);
      const [color, number] = names.get(value);
      names.set(value, [color, number + 1]);
      pen.fillStyle = color;
      pen.fillRect(this.spots[n][0], this.spots[n][1], this.size, this.size);
    }
    this.names = names;
    this.explain();
  }

  /** The colors are for a light page; on a dark one they are lighter, and what has none is darker. */
  color(by, value, number) {
    const fixed = this.site.fixed[by];
    const color = fixed && Object.hasOwn(fixed, value) ? fixed[value] : value ? PALETTE[number % PALETTE.length] : FREE;
    return DARK.matches ? `color-mix(in srgb, ${color} 60%, ${color === FREE ? "black" : "white"})` : color;
  }

  /** The name of a frame, without its beginning where it is too long: names of leaves and racks differ at their ends. */
  shortened(pen, frame) {
    let text = frame.name;
    while (text.length > 1 && pen.measureText(text).width > frame.width - 3) text = `…${text.slice(text[0] === "…" ? 2 : 1)}`;
    return text;
  }

  /** The largest groups, with their colors and numbers. */
  explain() {
    const kinds = { leaf: ["leaf", "leaves"], rack: ["rack", "racks"] }[this.getAttribute("kind")];
    const most = this.clientWidth < 500 ? 6 : 12; // a phone's first screen has room for the picture, too
    const by = this.select.value, rows = [...this.names].sort((a, b) => b[1][1] - a[1][1]);
    this.legend.replaceChildren(
      ...rows.slice(0, most).map(([value, [color, number]]) => {
        const item = document.createElement("li"), dot = document.createElement("canvas");
        [dot.width, dot.height] = [12, 12];
        const pen = dot.getContext("2d");
        pen.fillStyle = color;
        pen.fillRect(0, 0, 12, 12);
        dot.setAttribute("aria-hidden", "true");
        item.append(dot, ` ${number} ${value || "none"}`);
        return item;
      }),
    );
    const repeated = !this.site.fixed[by] && rows.length > PALETTE.length ? ` There are ${PALETTE.length} colors: some stand for several.` : "";
    const rest = rows.length > most ? ` Not listed: ${rows.length - most} more by ${by}.` : "";
    this.status.textContent = `${this.spots.length} nodes in ${this.frames.length} ${kinds[this.frames.length === 1 ? 0 : 1]}.${rest}${repeated} As of ${this.time()}. A click leads to a node.${by === "load" ? this.unread : ""}`;
  }

  /** The number of the node at the pointer; -1: none. */
  under(event) {
    const at = this.canvas.getBoundingClientRect(), x = event.clientX - at.left, y = event.clientY - at.top;
    return this.spots.findIndex(([left, top]) => x >= left && x <= left + this.size && y >= top && y <= top + this.size);
  }

  entitle(event) {
    const n = this.under(event), frame = this.frames.find((one) => n >= one.first && n < one.first + one.nodes);
    this.canvas.title = frame ? `${this.site.nodes[n]}, ${this.getAttribute("kind")} ${frame.name}` : "";
  }

  go(event) {
    const n = this.under(event);
    if (n >= 0) location.assign(`${this.getAttribute("nodes")}/${encodeURIComponent(this.site.nodes[n])}`);
  }
}

customElements.define("weft-site", WeftSite);
