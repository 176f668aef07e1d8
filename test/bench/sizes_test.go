package bench

import (
	"flag"
	"fmt"
	"regexp"
	"time"
)

// sizes holds the sizes of the scenarios.
type sizes struct {
	rounds   int
	objects  int            // objects that are created, changed and deleted in the lifecycle scenario
	backlog  int            // objects that exist before the operator starts
	standing int            // objects that are already handled when the operator starts
	changes  int            // changes of the latency scenario
	daemons  int            // objects with one daemon each
	interval time.Duration  // interval of the timers
	idle     time.Duration  // duration of the idle measurement
	workers  int            // concurrent reconciles of each operator, and concurrent requests of the benchmark
	profiles string         // folder for profiles; empty disables them
	only     *regexp.Regexp // names of the scenarios to run
}

var (
	measure = flag.Bool("measure", false, "measure and print a report (default: run one tiny round that checks the benchmark itself)")
	quick   = flag.Bool("quick", false, "with -measure: use small sizes and one round, which takes two minutes")

	flagValues struct {
		sizes
		only string
	}
)

func init() {
	flag.IntVar(&flagValues.rounds, "rounds", 0, "number of rounds (default 5)")
	flag.IntVar(&flagValues.objects, "objects", 0, "number of objects that are created, changed and deleted at a time (default 200)")
	flag.IntVar(&flagValues.backlog, "backlog", 0, "number of objects that exist before the operator starts (default 2000)")
	flag.IntVar(&flagValues.standing, "standing", 0, "number of objects that are already handled when the operator starts (default 10000)")
	flag.IntVar(&flagValues.changes, "changes", 0, "number of changes in the latency scenario (default 200)")
	flag.IntVar(&flagValues.daemons, "daemons", 0, "number of objects with one daemon each (default 1000)")
	flag.DurationVar(&flagValues.interval, "interval", 0, "interval of the timers (default 30s)")
	flag.DurationVar(&flagValues.idle, "idle", 0, "duration of the idle measurement (default 5s)")
	flag.IntVar(&flagValues.workers, "workers", 16, "objects handled at a time, and requests set at a time by the load")
	flag.StringVar(&flagValues.profiles, "profiles", "", "existing `folder` to which each operator process writes CPU and heap profiles")
	flag.StringVar(&flagValues.only, "only", "", "run only the scenarios whose names match this `expression`: "+
		"lifecycle, backlog, latency, standing, timers, daemons")
}

// sizesFromFlags returns the sizes that the flags select.
func sizesFromFlags() (sizes, error) {
	s := sizes{
		rounds: 1, objects: 4, backlog: 8, standing: 16, changes: 3, daemons: 8,
		interval: 500 * time.Millisecond, idle: 100 * time.Millisecond,
	}
	switch {
	case *measure && *quick:
		s = sizes{
			rounds: 1, objects: 60, backlog: 400, standing: 1000, changes: 50, daemons: 100,
			interval: 5 * time.Second, idle: 2 * time.Second,
		}
	case *measure:
		s = sizes{
			rounds: 5, objects: 200, backlog: 2000, standing: 10000, changes: 200, daemons: 1000,
			interval: 30 * time.Second, idle: 5 * time.Second,
		}
	case *quick:
		return s, fmt.Errorf("-quick requires -measure")
	}
	for _, n := range []struct{ flag, size *int }{
		{&flagValues.rounds, &s.rounds}, {&flagValues.objects, &s.objects}, {&flagValues.backlog, &s.backlog},
		{&flagValues.standing, &s.standing}, {&flagValues.changes, &s.changes}, {&flagValues.daemons, &s.daemons},
		{&flagValues.workers, &s.workers},
	} {
		if *n.flag < 0 {
			return s, fmt.Errorf("numbers must be positive, got %d", *n.flag)
		}
		if *n.flag > 0 {
			*n.size = *n.flag
		}
	}
	if flagValues.idle > 0 {
		s.idle = flagValues.idle
	}
	if flagValues.interval > 0 {
		s.interval = flagValues.interval
	}
	s.profiles = flagValues.profiles
	var err error
	if s.only, err = regexp.Compile(flagValues.only); err != nil {
		return s, fmt.Errorf("-only: %w", err)
	}
	return s, nil
}
