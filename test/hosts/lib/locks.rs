// SPDX-License-Identifier: Apache-2.0
//! A lock of Rust's library, for test/hosts/locks.cc.
use std::sync::Mutex;

/// In memory it looks like the C library's: an owner, users and a kind behind the word.
static LOCK: Mutex<[u32; 4]> = Mutex::new([0; 4]);

extern "C" {
    fn gettid() -> i32;
}

#[no_mangle]
pub unsafe extern "C" fn locks_plugin(hold: extern "C" fn(*mut u8), arg: *mut u8) {
    let mut held = LOCK.lock().unwrap();
    hold(arg);
    // The leaving thread writes itself as the owner.
    *held = [gettid() as u32, 1, 0, 0];
}
