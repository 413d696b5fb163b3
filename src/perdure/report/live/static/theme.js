// The theme: that of the system, or the one that was chosen on the page.

const dark = matchMedia("(prefers-color-scheme: dark)");
const CHOICES = ["auto", "light", "dark"];
const listeners = [];
let choice = "auto";

export const isDark = () => (choice === "auto" ? dark.matches : choice === "dark");
export const onTheme = (act) => listeners.push(act);

function apply() {
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${choice}`;
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  for (const act of listeners) act();
}

// A browser may forbid storage: the choice then lasts until the page is closed.
try {
  const stored = localStorage.getItem("perdure-theme");
  if (CHOICES.includes(stored)) choice = stored;
} catch { /* as if nothing were stored */ }

document.getElementById("theme").addEventListener("click", () => {
  choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
  try {
    localStorage.setItem("perdure-theme", choice);
  } catch { /* not stored */ }
  apply();
});
dark.addEventListener("change", () => choice === "auto" && apply());
apply();
