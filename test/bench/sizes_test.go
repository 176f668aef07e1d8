package bench

import (
	"flag"
	"fmt"
	"regexp"
	"time"
)

// sizes are the sizes of the scenarios.
type sizes struct {
	rounds   int
	objects  int           // objects of one storm
	backlog  int           // objects that wait for the operator
	standing int           // objects that are handled before the start; each has a timer
	changes  int           // single changes for the latency
	daemons  int           // daemons, each of a separate object
	interval time.Duration // interval of the timers
	idle     time.Duration // idle time with the standing objects
	workers  int           // workers of the operators, and of the load
	profiles string
	only     *regexp.Regexp
}

var (
	measure = flag.Bool("measure", false, "measure; else there is only a tiny round, to show that the benchmark works")
	quick   = flag.Bool("quick", false, "with -measure: small sizes and one round, two minutes")

	given struct {
		sizes
		only string
	}
)

func init() {
	flag.IntVar(&given.rounds, "rounds", 0, "rounds (default 5)")
	flag.IntVar(&given.objects, "objects", 0, "objects of one storm (default 200)")
	flag.IntVar(&given.backlog, "backlog", 0, "objects that waited for the operator (default 2000)")
	flag.IntVar(&given.standing, "standing", 0, "handled objects that the operator starts over (default 10000)")
	flag.IntVar(&given.changes, "changes", 0, "single changes, for the latency (default 200)")
	flag.IntVar(&given.daemons, "daemons", 0, "objects with a daemon each (default 1000)")
	flag.DurationVar(&given.interval, "interval", 0, "how often the timers of the standing objects are called (default 30s)")
	flag.DurationVar(&given.idle, "idle", 0, "how long the operator is watched doing nothing (default 5s)")
	flag.IntVar(&given.workers, "workers", 16, "objects handled at a time, and requests made at a time by the load")
	flag.StringVar(&given.profiles, "profiles", "", "the `folder` for profiles of each operator process, of CPU and heap; it must exist")
	flag.StringVar(&given.only, "only", "", "run only the scenarios whose names match this `expression`: "+
		"life, backlog, latency, standing, timers, daemons")
}

// chosen returns the sizes for the flags.
func chosen() (sizes, error) {
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
		return s, fmt.Errorf("-quick is a way to measure: give -measure too")
	}
	for _, n := range []struct{ flag, size *int }{
		{&given.rounds, &s.rounds}, {&given.objects, &s.objects}, {&given.backlog, &s.backlog},
		{&given.standing, &s.standing}, {&given.changes, &s.changes}, {&given.daemons, &s.daemons},
		{&given.workers, &s.workers},
	} {
		if *n.flag < 0 {
			return s, fmt.Errorf("a number of %d makes no benchmark: give a positive one", *n.flag)
		}
		if *n.flag > 0 {
			*n.size = *n.flag
		}
	}
	if given.idle > 0 {
		s.idle = given.idle
	}
	if given.interval > 0 {
		s.interval = given.interval
	}
	s.profiles = given.profiles
	var err error
	if s.only, err = regexp.Compile(given.only); err != nil {
		return s, fmt.Errorf("-only: %w", err)
	}
	return s, nil
}
