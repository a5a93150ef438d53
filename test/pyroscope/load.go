// SPDX-License-Identifier: Apache-2.0

// The load of load.cc, with Go's clients of OpenTelemetry and Pyroscope. Usage: load SECONDS, with SERVER and SERVICE in
// the environment.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"syscall"
	"time"

	otelpyroscope "github.com/grafana/otel-profiling-go"
	"github.com/grafana/pyroscope-go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

type driver struct {
	name     string
	distance int
}

const rusageThread = 1

// cpu is what this thread has used.
func cpu() time.Duration {
	var r syscall.Rusage

	if err := syscall.Getrusage(rusageThread, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func listDrivers(seed int) []driver {
	var drivers []driver

	for i := 0; i < 300; i++ {
		drivers = append(drivers, driver{"driver-" + strconv.Itoa((i*7919+seed)%10007), (i*31 + seed) % 997})
	}
	return drivers
}

func sortByDistance(drivers []driver) {
	sort.Slice(drivers, func(a, b int) bool { return drivers[a].distance < drivers[b].distance })
}

func countNames(drivers []driver) int {
	names := map[string]int{}

	for _, d := range drivers {
		names[d.name]++
	}
	return len(names)
}

func findNearestVehicle(ctx context.Context, tracer trace.Tracer, until time.Duration) {
	_, span := tracer.Start(ctx, "FindNearestVehicle")
	defer span.End()

	for seed := 0; cpu() < until; seed++ {
		drivers := listDrivers(seed)
		sortByDistance(drivers)
		countNames(drivers)
	}
}

func orderVehicle(tracer trace.Tracer, name string, ms int) {
	until := cpu() + time.Duration(ms)*time.Millisecond
	ctx, span := tracer.Start(context.Background(), name)
	defer span.End()

	findNearestVehicle(ctx, tracer, until)
}

func main() {
	orders := []struct {
		name string
		ms   int
	}{{"OrderVehicle /car", 16}, {"OrderVehicle /bike", 8}, {"OrderVehicle /scooter", 6}}
	seconds, _ := strconv.Atoi(os.Args[1])
	n := seconds * 850 / 60

	runtime.LockOSThread()
	profiler, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: os.Getenv("SERVICE"),
		ServerAddress:   os.Getenv("SERVER"),
		ProfileTypes:    []pyroscope.ProfileType{pyroscope.ProfileCPU},
	})
	if err != nil {
		panic(err)
	}
	tracer := otelpyroscope.NewTracerProvider(sdktrace.NewTracerProvider()).Tracer("load")
	next := time.Now()
	for i := 0; i < n; i++ {
		orderVehicle(tracer, orders[i%3].name, orders[i%3].ms)
		next = next.Add(time.Minute / 850)
		time.Sleep(time.Until(next))
	}
	fmt.Printf("%d roots, %.1f s of CPU time\n", n, cpu().Seconds())
	if err := profiler.Stop(); err != nil {
		panic(err)
	}
}
