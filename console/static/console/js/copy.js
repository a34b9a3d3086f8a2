// Copy buttons: exactly the value that they carry.
const toast = document.getElementById("toast");
let hiding;

function say(text) {
  if (!toast) return;
  toast.textContent = text;
  clearTimeout(hiding);
  hiding = setTimeout(() => (toast.textContent = ""), 2500);
}

async function put(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    say("The browser refused to copy");
  }
}

function wanted(button) {
  const { copy, copyBase64 } = button.dataset;
  if (copyBase64 === undefined) return copy;
  const bytes = Uint8Array.from(atob(copyBase64), (char) => char.charCodeAt(0));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy], [data-copy-base64]");
  if (button) put(wanted(button));
});

document.addEventListener("key:y", () => put(location.href));
