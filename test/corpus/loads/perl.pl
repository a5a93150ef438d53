# SPDX-License-Identifier: Apache-2.0
# About a second of perl's work: expressions, hashes, sorting, eval and die, formats, closures.
use strict;
use warnings;
use Digest::MD5 'md5_hex';
use List::Util qw(sum reduce);
use POSIX 'floor';
use Storable qw(freeze thaw);

srand $ARGV[0];

my $told = '';

sub tell_it { $told = md5_hex($told, @_) }
sub word { join '', map { chr 97 + int rand 8 } 1 .. 1 + rand 8 }
sub deep { no warnings 'recursion'; my $n = shift; $n ? 1 + deep($n - 1) : sum(map { $_ * $_ } 1 .. 50) }

tell_it(deep(500)) for 1 .. 60;

my @words = map { word() } 1 .. 150_000;
my %count;
$count{$_}++ for @words;
tell_it(join ' ', (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 20]);
tell_it(join ' ', (sort { length $a <=> length $b or $b cmp $a } @words)[0 .. 20]);

my $text = join ' ', @words;
tell_it(scalar(() = $text =~ /(?:a|b)+c?(\w)\s\1/g));
(my $turned = $text) =~ s/\b(\w)(\w*)/$2$1/g;
$turned =~ tr/a-h/h-o/;
$turned =~ s/(\w+)/length($1) . uc $1/ge for 1 .. 2;
tell_it($turned);

for my $n (1 .. 40_000) {
	eval { die { n => $n } if $n % 3; 1 } or tell_it($@->{n} % 7);
}
for my $n (1 .. 3000) {
	tell_it(eval "my \$x = $n; \$x * " . ($n % 9) . ' + 1');
}
for (1 .. 60) {
	my $copy = thaw(freeze({ map { $_ => [ 1, { x => $_ } ] } @words[0 .. 2000] }));
	tell_it(scalar keys %$copy);
}
for my $i (1 .. 80_000) {
	tell_it(sprintf '%-10s|%08.3f|%x|%s', $words[$i], floor($i / 7), $i, pack 'NnC', $i, 1, 2)
		if $i % 2;
	my @parts = split /[ace]/, $words[$i];
	local $_ = reduce { $a . $b } reverse @parts, 'x';
	chop;
}
print "$told\n";
