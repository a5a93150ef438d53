// SPDX-License-Identifier: Apache-2.0

// A Go program that works in C, by cgo, and in Go.
package main

/*
static long c_work(long rounds)
{
	volatile long sum = 0;

	for (long i = 0; i < rounds; i++)
		sum += i % 7;
	return sum;
}
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
)

func goWork(rounds int64) int64 {
	var sum int64
	for i := int64(0); i < rounds; i++ {
		sum += i % 7
	}
	return sum
}

func main() {
	const rounds = 100000000
	var group sync.WaitGroup
	sums := make([]int64, 4)
	for g := range sums {
		group.Add(1)
		// Go before 1.22 has one g for all turns of the loop.
		go func(g int) {
			defer group.Done()
			if g%2 == 0 {
				sums[g] = int64(C.c_work(rounds))
			} else {
				sums[g] = goWork(rounds)
			}
		}(g)
	}
	group.Wait()
	fmt.Println(sums)
	os.Exit(21)
}
