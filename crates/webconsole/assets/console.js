// Keeps an open page as the controller is: the server sends the parts that have changed, and this puts them in their place.
// Without it a page says what was true when it was asked for.
"use strict";

(() => {
  const SILENCE_MS = 15000; // The server says something every five seconds.
  const AGAIN_MS = 2000;
  const from = document.body.dataset.live;
  const stale = document.getElementById("stale");
  const pulse = document.getElementById("pulse");
  if (!from || !window.EventSource) return;

  let heard = Date.now();
  let tried = Date.now();
  let source = null;
  let signedOut = false;

  // Whether somebody has chosen or typed something else than the server put there.
  const isChanged = (field) => {
    if (field.tagName === "SELECT") {
      return field.selectedIndex !== Math.max([...field.options].findIndex((one) => one.defaultSelected), 0);
    }
    if (field.type === "checkbox") return field.checked !== field.defaultChecked;
    return field.value !== field.defaultValue;
  };

  // A part in which somebody types is left alone until they are done.
  const isTypedIn = (part) =>
    [...part.querySelectorAll("input, select")].some((field) =>
      field.type !== "hidden" && (field === document.activeElement || isChanged(field)));

  const waiting = new Map();

  // What has the focus keeps it: the same button of the same form in what comes.
  const focusOf = (part) => {
    const active = document.activeElement;
    if (!part.contains(active)) return null;
    const all = [...part.querySelectorAll("a, button, summary")];
    const label = active.textContent;
    const nth = all.filter((one) => one.textContent === label).indexOf(active);
    return (now) => {
      const same = [...now.querySelectorAll("a, button, summary")].filter((one) => one.textContent === label);
      (same[nth] || document.getElementById("main")).focus({ preventScroll: true });
    };
  };

  const put = (id, html) => {
    const part = document.getElementById(id);
    if (!part) return;
    if (isTypedIn(part)) {
      waiting.set(id, html);
      return;
    }
    waiting.delete(id);
    const made = document.createElement("template");
    made.innerHTML = html;
    const open = new Set([...part.querySelectorAll("details[open]")].map((one) => one.id));
    for (const one of made.content.querySelectorAll("details")) one.open = open.has(one.id);
    const text = made.innerHTML;
    if (text.trim() === part.innerHTML.trim()) return;
    const refocus = focusOf(part);
    part.replaceChildren(made.content);
    if (refocus) refocus(part);
  };

  // A page of something that is gone is another page: its parts go, others come.
  const place = (ids) => {
    const main = document.getElementById("main");
    for (const part of main.querySelectorAll(":scope > .part")) {
      if (ids.includes(part.id)) continue;
      waiting.delete(part.id);
      part.remove();
    }
    for (const id of ids) {
      if (document.getElementById(id)) continue;
      const part = document.createElement("section");
      part.id = id;
      part.className = "part";
      main.append(part);
    }
  };

  const clock = () => new Date().toLocaleTimeString();

  const alive = () => {
    heard = Date.now();
    stale.hidden = true;
    pulse.textContent = "Live.";
  };

  const notice = (text, link) => {
    if (!stale.hidden && stale.dataset.text === text) return;
    stale.dataset.text = text;
    stale.replaceChildren(text + " ");
    if (link) {
      const to = document.createElement("a");
      to.href = link;
      to.textContent = "Sign in";
      stale.append(to);
    }
    stale.hidden = false;
    pulse.textContent = text;
  };

  const listen = () => {
    if (source) source.close();
    tried = Date.now();
    source = new EventSource(from);
    source.addEventListener("parts", (event) => {
      const told = JSON.parse(event.data);
      document.title = told.title;
      place(told.ids);
      for (const [id, html] of Object.entries(told.parts)) put(id, html);
      alive();
    });
    source.addEventListener("pulse", alive);
    source.addEventListener("signed-out", () => {
      signedOut = true;
      source.close();
      const back = encodeURIComponent(location.pathname + location.search);
      notice("You are signed out: this page is as it was at " + clock() + ". A session ends when the controller is started anew, and after half an hour " +
        "without use. Signing in leads back here.", "/console/sign-in?ended=yes&back=" + back);
    });
    source.onerror = () => {
      // The browser tries again by itself, unless the answer was no stream.
      if (source.readyState === EventSource.CLOSED && !signedOut) setTimeout(listen, AGAIN_MS);
    };
  };

  setInterval(() => {
    for (const [id, html] of [...waiting]) put(id, html);
    if (signedOut || Date.now() - heard < SILENCE_MS) return;
    // A connection that only looks open, after a sleep say, tells of no error.
    if (Date.now() - tried > SILENCE_MS) listen();
    const since = new Date(heard).toLocaleTimeString();
    notice("This page is stale: nothing was heard from the controller since " + since + ".");
  }, 1000);

  listen();
})();
