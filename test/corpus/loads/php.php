<?php
// SPDX-License-Identifier: Apache-2.0
// About a second of what PHP does. Arguments: the round, and 1 for regular expressions that are compiled
// to machine code, as is the default.

mt_srand((int)$argv[1]);
ini_set('pcre.jit', $argv[2] ?? '0');
set_time_limit(600);
$told = '';

function tell(mixed ...$values): void
{
	global $told;
	$told = md5($told . json_encode($values));
}

function word(): string
{
	return substr(str_shuffle('abcdefghabcdefgh'), 0, mt_rand(1, 9));
}

function deep(int $n): int
{
	return $n ? 1 + deep($n - 1) : array_sum(array_map(fn($i) => $i * $i, range(1, 50)));
}

function numbers(int $n): Generator
{
	for ($i = 0; $i < $n; $i++)
		yield $i => $i % 7;
}

class Thing implements JsonSerializable, ArrayAccess
{
	private array $parts = [];

	public function __get(string $name): mixed { return strrev($name); }
	public function offsetExists(mixed $at): bool { return isset($this->parts[$at]); }
	public function offsetGet(mixed $at): mixed { return $this->parts[$at] ?? null; }
	public function offsetSet(mixed $at, mixed $value): void { $this->parts[$at] = $value; }
	public function offsetUnset(mixed $at): void { unset($this->parts[$at]); }
	public function jsonSerialize(): mixed { return $this->parts; }
	public function __destruct() { global $told; $told .= 'x'; }
}

for ($i = 0; $i < 40; $i++)
	tell(deep(2000));
$words = [];
for ($i = 0; $i < 150000; $i++)
	$words[] = word();
$count = array_count_values($words);
arsort($count);
tell(array_sum($count), max($count));
usort($words, fn($a, $b) => strlen($a) <=> strlen($b) ?: strcmp($b, $a));
tell(array_slice($words, 0, 20), array_unique(array_slice($words, 0, 5000)));
$text = implode(' ', $words);
for ($i = 0; $i < 3; $i++) {
	tell(preg_match_all('/(?:a|b)+c?(\w)\s\1/', $text));
	tell(preg_replace('/\b(\w)(\w*)/', '$2$1', $text));
	tell(preg_replace_callback('/(\w+)/', fn($m) => strlen($m[1]) . strtoupper($m[1]), $text));
}
foreach (['md5', 'sha256', 'sha3-512', 'crc32b', 'whirlpool', 'xxh3'] as $name)
	tell(hash($name, $text));
for ($i = 0; $i < 30000; $i++) {
	try {
		if ($i % 3)
			throw new DomainException((string)$i);
		$thing = new Thing;
		$thing[$i] = $thing->name;
		tell($thing);
	} catch (DomainException $error) {
		tell($error->getMessage());
	} finally {
		$last = sprintf('%-10s|%08.3f|%x', $words[$i], $i / 7, $i);
	}
}
$sum = 0;
foreach (numbers(1500000) as $key => $value)
	$sum += $key ^ $value;
tell($sum, $last);
for ($i = 0; $i < 20; $i++) {
	tell(unserialize(serialize(array_flip(array_slice($words, $i * 100, 5000)))));
	tell(password_verify('secret', password_hash('secret', PASSWORD_BCRYPT, ['cost' => 4])));
}
echo md5($told), "\n";
