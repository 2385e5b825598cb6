"use strict";
(() => {
  const root = document.documentElement;
  // Light and dark: as the system wishes, until the button is pressed.
  const wish = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : wish.matches);
  const showTheme = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  wish.addEventListener("change", showTheme);
  showTheme();
  button.hidden = false;
})();
