const f = document.forms.sign, d = f.dataset, say = t => { f.querySelector('output').value = t };
const bytes = s => Uint8Array.from(atob(s), c => c.charCodeAt());
const done = r => new Promise((y, n) => { r.onsuccess = () => y(r.result); r.onerror = n });
const ways = {
  webauthn: async () => (await navigator.credentials.get({
    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(d.options)) })).toJSON(),
  webcrypto: async () => {
    const k = await done((await done(indexedDB.open('keys'))).transaction('k').objectStore('k').get(d.key));
    const s = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, k, bytes(d.message));
    return { signature: btoa(String.fromCharCode(...new Uint8Array(s))) };
  } };
f.onsubmit = async e => {
  e.preventDefault(); say(d.wait); f.sign.disabled = true;
  try { f.answer.value = JSON.stringify(await ways[d.method]()); f.submit() }
  catch (x) { say(d.failed + ' ' + x.message); f.sign.disabled = false }
};
