"use strict";
// The page works without this script. It swaps parts of the page instead of loading all of it again.

const SECONDS = 5;

function parse(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

// Try-outs: send the form and replace the lists; the focus stays on the same button or goes to the list.
async function tryOut(form, button) {
  const body = new URLSearchParams(new FormData(form));
  if (button && button.name) body.append(button.name, button.value);
  form.setAttribute("aria-busy", "true");
  const response = await fetch(form.action, { method: "POST", body, credentials: "same-origin" });
  const page = parse(await response.text());
  const front = page.getElementById("front");
  if (response.redirected || !front) {
    document.location.assign("/login");
    return;
  }
  const old = document.getElementById("front");
  document.querySelectorAll("main > .alert").forEach((alert) => alert.remove());
  const status = old.querySelector("[role=status]");
  const fresh = document.adoptNode(front);
  const message = fresh.querySelector("[role=status]").innerHTML;
  fresh.querySelector("[role=status]").replaceWith(status); // the same element, so that it is read aloud
  const more = fresh.querySelector("details.more");
  if (old.querySelector("details.more").open) more.open = true;
  old.replaceWith(fresh);
  status.innerHTML = message;
  const alert = page.querySelector("main > .alert");
  if (alert) fresh.before(document.adoptNode(alert));
  focusOn(fresh, button);
}

function focusOn(front, button) {
  const same = button && button.name
    ? [...front.querySelectorAll("button")].find((one) => one.name === button.name && one.value === button.value)
    : null;
  (same || front).focus({ preventScroll: true });
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.hasAttribute("data-live") || !window.fetch) return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") === "true") return;
  tryOut(form, event.submitter).catch(() => {
    form.removeAttribute("aria-busy");
    form.removeAttribute("data-live"); // the next press loads the whole page, which shows what is wrong
    form.requestSubmit(event.submitter);
  });
});

// Figures: read again every few seconds while the page is visible.
async function refresh() {
  const figures = document.querySelector("[data-refresh]");
  if (!figures || document.hidden || figures.contains(document.activeElement)) return;
  const response = await fetch(figures.dataset.refresh, { credentials: "same-origin" });
  const fresh = response.ok && !response.redirected ? parse(await response.text()).getElementById("figures") : null;
  if (fresh) figures.replaceWith(document.adoptNode(fresh));
}

setInterval(() => refresh().catch(() => {}), 1000 * SECONDS);
