// SPDX-License-Identifier: Apache-2.0

// A lock of Go's library, for test/hosts/locks.cc.
package main

/*
typedef void (*hold_fn)(void *arg);
static void call(hold_fn hold, void *arg) { hold(arg); }
*/
import "C"

import (
	"sync"
	"unsafe"
)

var lock sync.Mutex

//export locks_plugin
func locks_plugin(hold C.hold_fn, arg unsafe.Pointer) {
	lock.Lock()
	defer lock.Unlock()
	C.call(hold, arg)
}

func main() {}
