// <weft-receipt src="receipt.json" member="receipt">: verifies a signed document in this browser, by WebCrypto.
// member: what is signed: receipt, or certificate.
// Canonical JSON as in docs: keys sorted by code point, no spaces, UTF-8 without escapes, whole numbers only.
"use strict";

const byCodePoint = (one, other) => {
  const [a, b] = [[...one], [...other]].map((text) => text.map((c) => c.codePointAt(0)));
  for (let i = 0; i < Math.min(a.length, b.length); i += 1) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
};

const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const members = Object.keys(value).sort(byCodePoint);
    return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
  }
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new Error("a number that signed documents don't have");
  return JSON.stringify(value);
};

const bytes = (text, length) => {
  const found = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  if (found.length !== length) throw new Error(`not base64 of ${length} bytes`);
  return found;
};

const fits = async (signed, member) => {
  const raw = bytes(signed.public_key, 32);
  const key = await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  const text = new TextEncoder().encode(canonical(signed[member]));
  return crypto.subtle.verify({ name: "Ed25519" }, key, bytes(signed.signature, 64), text);
};

class WeftReceipt extends HTMLElement {
  async connectedCallback() {
    this.member = this.getAttribute("member");
    this.input = this.querySelector("input");
    this.verdict = this.querySelector("[role=status]");
    this.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.check();
    });
    await this.check();
  }

  async check() {
    this.say("busy", "Checking the signature in this browser…");
    let signed, matches;
    try {
      const answer = await fetch(this.getAttribute("src"), { credentials: "same-origin" });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      signed = await answer.json();
    } catch (error) {
      return this.say("unknown", `Not checked: the ${this.member} can't be read (${error.message}).`);
    }
    if (!globalThis.crypto?.subtle) return this.cannot("it needs HTTPS, or http://localhost");
    try {
      if (signed.algorithm !== "Ed25519") throw new TypeError("not Ed25519");
      matches = await fits(signed, this.member);
    } catch (error) {
      if (error.name === "NotSupportedError") return this.cannot("it doesn't know Ed25519");
      return this.say("broken", `NOT VALID: ${error.message}.`);
    }
    if (!matches) return this.say("broken", `NOT VALID: the signature doesn't match: the ${this.member} was changed after signing.`);
    if (signed.public_key.trim() === this.input.value.trim())
      return this.say("trusted", "Valid: unchanged since it was signed with the expected key.");
    return this.say("other", `SIGNED WITH ANOTHER KEY than the expected one: ${signed.public_key}. Unchanged since that key signed it.`);
  }

  cannot(why) {
    this.say("unknown", `Not checked: this browser can't check the signature: ${why}. Download the ${this.member}: weft receipt verify FILE --key KEY`);
  }

  say(result, text) {
    this.dataset.result = result;
    this.verdict.textContent = text;
  }
}

customElements.define("weft-receipt", WeftReceipt);
