// SPDX-License-Identifier: Apache-2.0

// A Go shared object for C programs: work on goroutines that the Go scheduler has to preempt, which
// it does by the signal SIGURG.
package main

import "C"

import "sync"

//export SharedWork
func SharedWork(rounds C.int) C.long {
	var group sync.WaitGroup
	sums := make([]int64, 4)
	for g := range sums {
		group.Add(1)
		// Go before 1.22 has one g for all turns of the loop.
		go func(g int) {
			defer group.Done()
			for i := int64(0); i < int64(rounds); i++ {
				sums[g] += i % 7
			}
		}(g)
	}
	group.Wait()
	return C.long(sums[0] + sums[1] + sums[2] + sums[3])
}

func main() {}
