// SPDX-License-Identifier: Apache-2.0
// A Rust program with generics, closures and traits, for test/symbols.
use std::collections::BTreeMap;
use std::fmt::Debug;

trait Priced {
    fn price(&self) -> f64;
}

#[derive(Debug, Clone)]
struct Item {
    name: String,
    cents: u32,
}

impl Priced for Item {
    fn price(&self) -> f64 {
        f64::from(self.cents) / 100.0
    }
}

fn total<T: Priced>(items: &[T], rule: impl Fn(f64) -> f64) -> f64 {
    items.iter().map(|i| rule(i.price())).sum()
}

#[inline(never)]
fn group<K: Ord + Debug, V: Clone>(pairs: Vec<(K, V)>) -> BTreeMap<K, Vec<V>> {
    let mut map = BTreeMap::new();
    for (k, v) in pairs {
        map.entry(k).or_insert_with(Vec::new).push(v);
    }
    map
}

fn main() {
    let items: Vec<Item> = "tea salt rope tea lamp"
        .split(' ')
        .enumerate()
        .map(|(i, n)| Item { name: n.to_string(), cents: 100 * i as u32 + 7 })
        .collect();
    let groups = group(items.iter().map(|i| (i.name.clone(), i.clone())).collect());
    println!("{:.2} {:?}", total(&items, |p| p * 0.9), groups);
}
