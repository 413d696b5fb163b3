// A page that is opened from a folder may not start a Worker, in which the search runs. There, Worker is replaced by
// a frame on the same page that has the functions of one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inside.importScripts = (...urls) => Promise.all(urls.map((source) => load(frame, source)));
      load(frame, url).then(() => {
        this.inside = inside;
        for (const data of this.waiting) this.deliver(data);
      });
    }
    postMessage(data) {
      if (this.inside) this.deliver(data);
      else this.waiting.push(data);
    }
    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
    terminate() {}
  };

  function load(frame, url) {
    return new Promise((done) => {
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href);
      script.onload = done;
      frame.contentDocument.body.append(script);
    });
  }
}
