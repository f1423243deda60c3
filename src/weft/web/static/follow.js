// <weft-follow src="events/live" most="200">: inserts what the stream sends before the first entry of its list, and
// removes as many at its end. The server's text is escaped there. A button pauses it.
"use strict";

class WeftFollow extends HTMLElement {
  connectedCallback() {
    this.list = this.querySelector("ol");
    this.status = this.querySelector("[role=status]");
    this.button = this.querySelector("button");
    this.most = Number(this.getAttribute("most"));
    this.address = new URL(this.getAttribute("src"), location.href);
    this.button.hidden = false;
    this.button.addEventListener("click", () => (this.source ? this.pause() : this.follow()));
    this.follow();
  }

  disconnectedCallback() {
    this.source?.close();
  }

  follow() {
    this.source = new EventSource(this.address);
    this.source.addEventListener("open", () => this.say("Following.", "Pause"));
    this.source.addEventListener("error", () => {
      if (this.source.readyState !== EventSource.CLOSED) return this.say("The connection is lost; trying again.", "Pause");
      this.pause(); // by an answer that isn't a stream: the browser doesn't try again
      this.say("Not following: the session has ended, or the server is busy. Load the page again.", "Go on");
    });
    this.source.addEventListener("reset", () => location.reload());
    this.source.addEventListener("over", () => {
      this.pause();
      this.say("Not following: the session has ended. Load the page again.", "Go on");
    });
    this.source.addEventListener("events", (event) => {
      this.address.searchParams.set("after", event.lastEventId);
      this.list.insertAdjacentHTML("afterbegin", event.data);
      while (this.list.children.length > this.most) this.list.lastElementChild.remove();
    });
  }

  pause() {
    this.source.close();
    this.source = null;
    this.say("Paused.", "Go on");
  }

  say(text, button) {
    this.status.textContent = text;
    this.button.textContent = button;
  }
}

customElements.define("weft-follow", WeftFollow);
