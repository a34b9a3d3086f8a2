const f = document.forms.enrol, d = f.dataset, say = t => { f.querySelector('output').value = t };
const bytes = s => Uint8Array.from(atob(s), c => c.charCodeAt());
const b64 = b => btoa(String.fromCharCode(...new Uint8Array(b)));
const hex = b => Array.from(new Uint8Array(b), n => n.toString(16).padStart(2, '0')).join('');
const store = () => new Promise((done, failed) => {
  const open = indexedDB.open('keys', 2);
  open.onupgradeneeded = () => open.result.createObjectStore('k');
  open.onsuccess = () => done(open.result);
  open.onerror = failed;
});
const ways = {
  webauthn: async () => (await navigator.credentials.create({
    publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(d.options)),
  })).toJSON(),
  webcrypto: async () => {
    const way = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
    const pair = await crypto.subtle.generateKey(way, false, ['sign', 'verify']);
    const spki = await crypto.subtle.exportKey('spki', pair.publicKey);
    const id = 'sha256:' + hex(await crypto.subtle.digest('SHA-256', spki));
    const signature = await crypto.subtle.sign(way, pair.privateKey, bytes(d.message));
    const keys = (await store()).transaction('k', 'readwrite').objectStore('k');
    await new Promise((done, failed) => {
      const put = keys.put(pair.privateKey, id);
      put.onsuccess = done;
      put.onerror = failed;
    });
    return { spki: b64(spki), signature: b64(signature) };
  },
};
f.onsubmit = async event => {
  if (!ways[d.method]) return;
  event.preventDefault();
  say(d.wait);
  f.enrol.disabled = true;
  try {
    f.answer.value = JSON.stringify(await ways[d.method]());
    f.submit();
  } catch (error) {
    say(d.failed + ' ' + error.message);
    f.enrol.disabled = false;
  }
};
