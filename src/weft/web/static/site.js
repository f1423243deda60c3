// <weft-site src="picture.json?by=leaf">: the whole site on a canvas, a square for each node, a frame for each leaf or
// rack. The page's table shows the same without it. The color is by what is chosen, and changes without drawing anything
// else again; a click leads to the node. It is read again every half minute while it is visible.
"use strict";

const PALETTE = ["#0b5394", "#b45f06", "#38761d", "#741b47", "#134f5c", "#7f6000", "#5b0f00", "#20124d", "#1b6e6e", "#7a1f6b"];
const FREE = "#8a939d";
const AGAIN = 30000; // milliseconds

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
    const step = this.size + 1, gap = 6;
    this.spots = [];
    this.frames = [];
    let x = 0, y = 0, tall = 0, first = 0;
    for (const box of this.site.boxes) {
      const columns = Math.max(1, Math.ceil(Math.sqrt(box.nodes))), lines = Math.ceil(box.nodes / columns);
      const wide = columns * step + gap;
      if (x + wide > width && x) [x, y, tall] = [0, y + tall, 0];
      this.frames.push({ name: box.name, x, y, width: wide - 2, height: lines * step + gap - 2 });
      for (let i = 0; i < box.nodes; i += 1)
        this.spots[first + i] = [x + 2 + (i % columns) * step, y + 2 + Math.floor(i / columns) * step];
      first += box.nodes;
      x += wide;
      tall = Math.max(tall, lines * step + gap);
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
    pen.strokeStyle = getComputedStyle(this).getPropertyValue("--line");
    for (const frame of this.frames) pen.strokeRect(frame.x + 0.5, frame.y + 0.5, frame.width, frame.height);
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

  color(by, value, number) {
    const fixed = this.site.fixed[by];
    return fixed && Object.hasOwn(fixed, value) ? fixed[value] : value ? PALETTE[number % PALETTE.length] : FREE;
  }

  /** The largest groups, with their colors and numbers. */
  explain() {
    const by = this.select.value, rows = [...this.names].sort((a, b) => b[1][1] - a[1][1]);
    this.legend.replaceChildren(
      ...rows.slice(0, 12).map(([value, [color, number]]) => {
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
    const repeated = !this.site.fixed[by] && rows.length > PALETTE.length ? `; of more than ${PALETTE.length} groups, some have the same color` : "";
    const rest = rows.length > 12 ? `, and ${rows.length - 12} further groups` : "";
    this.status.textContent = `${this.spots.length} nodes in ${this.frames.length} groups${rest}${repeated}. As of ${this.time()}. A click leads to a node.${by === "load" ? this.unread : ""}`;
  }

  go(event) {
    const at = this.canvas.getBoundingClientRect(), x = event.clientX - at.left, y = event.clientY - at.top;
    const n = this.spots.findIndex(([left, top]) => x >= left && x <= left + this.size && y >= top && y <= top + this.size);
    if (n >= 0) location.assign(`${this.getAttribute("nodes")}/${encodeURIComponent(this.site.nodes[n])}`);
  }
}

customElements.define("weft-site", WeftSite);
