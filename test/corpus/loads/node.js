// SPDX-License-Identifier: Apache-2.0
// A second of node's work, in its own code and in code that it generates.
const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, workerData } = require('worker_threads');

let seed = Number(process.argv[2] || workerData);
const random = (n) => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) >>> 8) % n;
const word = () => Array.from({ length: 1 + random(8) }, () => 'abcdefgh'[random(8)]).join('');
let told = '';
const tell = (value) => {
	told = crypto.createHash('sha256').update(told + JSON.stringify(value)).digest('hex');
};
const deep = (n) => (n ? 1 + deep(n - 1) : [...Array(50).keys()].reduce((a, b) => a + b * b));

function work()
{
	const words = Array.from({ length: 100000 }, word);
	const count = new Map();

	for (let i = 0; i < 60; i++)
		tell(deep(100));
	for (const w of words)
		count.set(w, (count.get(w) || 0) + 1);
	tell([...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 20));
	const text = words.join(' ');
	for (let i = 0; i < 5; i++) {
		tell(text.match(/(?:a|b)+c?(\w)\s\1/g).length);
		tell(text.replace(/\b(\w)(\w*)/g, '$2$1').length);
		tell(text.replace(/(\w+)/g, (m) => m.length + m.toUpperCase()).length);
		tell(zlib.brotliCompressSync(zlib.gzipSync(text), {
			params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }).length > 0);
		tell(JSON.parse(JSON.stringify(words.map((w) => ({ w, n: [1, { w }] })))).length);
		tell(crypto.pbkdf2Sync(text, 'salt', 1000, 64, 'sha512').toString('hex'));
	}
	for (let i = 0; i < 20000; i++) {
		try {
			if (i % 3)
				throw new RangeError(words[i]);
			tell(new Function('n', `return n * ${i % 9} + 1`)(i));
		} catch (error) {
			tell(error.message);
		}
	}
	let sum = 0n;
	for (let i = 0n; i < 100000n; i++)
		sum += i ** 5n;
	tell(String(sum));
	console.log(told);
}

work();
if (isMainThread)
	new Worker(__filename, { workerData: seed, argv: [] });
