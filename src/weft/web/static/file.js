// <weft-file for="text" most="1048576">: reads a chosen file into a text, without sending it. Without JavaScript it is hidden.
"use strict";

class WeftFile extends HTMLElement {
  connectedCallback() {
    this.hidden = false;
    this.querySelector("input").addEventListener("change", (event) => this.read(event.target));
  }

  async read(input) {
    const [file] = input.files;
    if (!file) return;
    const most = Number(this.getAttribute("most"));
    const said = this.querySelector("[role=status]");
    if (file.size > most) {
      said.textContent = `${file.name} has ${file.size} bytes; at most ${most} are read here.`;
    } else {
      try {
        // `file.text()` would replace what isn't UTF-8 in the file by other characters.
        const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
        document.getElementById(this.getAttribute("for")).value = text;
        said.textContent = `${file.name} is in the text; nothing is sent yet.`;
      } catch {
        said.textContent = `${file.name} can't be read: it must be a file in UTF-8.`;
      }
    }
    input.value = "";
  }
}

customElements.define("weft-file", WeftFile);
