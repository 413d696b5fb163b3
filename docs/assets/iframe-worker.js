// A page that is opened from a folder may not start a Worker, in which the search runs. There, Worker is replaced by
// a hidden frame of the page that runs the same script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.addEventListener("message", (event) => this.onmessage?.(event));
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      // Messages are copied and arrive later, as those of a Worker do.
      inside.postMessage = (message) => {
        const data = structuredClone(message);
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      };
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href);
      this.frame = frame;
      this.ready = new Promise((done) => (script.onload = () => done(inside)));
      frame.contentDocument.body.append(script);
    }
    postMessage(message) {
      this.ready.then((inside) => {
        const data = inside.structuredClone(message);
        setTimeout(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
