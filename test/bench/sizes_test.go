package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// sizes holds the sizes of the scenarios.
type sizes struct {
	rounds   int
	objects  int            // objects that are created, changed and deleted at a time
	standing int            // objects that are already handled when the operator starts
	latency  time.Duration  // duration of the changes at each rate
	window   time.Duration  // duration of the measurement of timers
	timers   []timers       // sizes of the timer scenarios
	plotted  []int          // numbers of objects in the plot
	payload  int            // additional bytes in each object's spec
	lean     bool           // the library has lean caches
	workers  int            // concurrent reconciles of each operator, and concurrent requests of the benchmark
	profiles string         // folder for profiles; empty disables them
	only     *regexp.Regexp // matches the names of the scenarios to run
}

// timers is a number of objects that have one timer each.
type timers struct {
	objects  int
	interval time.Duration
}

var (
	measure = flag.Bool("measure", false, "measure and print a report (default: run one tiny round that checks the benchmark itself)")
	quick   = flag.Bool("quick", false, "with -measure: use small sizes and one round, which takes two minutes")

	roundsFlag   = flag.Int("rounds", 0, "number of rounds (default 5)")
	objectsFlag  = flag.Int("objects", 0, "number of objects that are created, changed and deleted at a time (default 2000)")
	standingFlag = flag.Int("standing", 0, "number of objects that are already handled when the operator starts (default 10000)")
	latencyFlag  = flag.Duration("latency", 0, "duration of the changes at each rate in the latency scenarios (default 15s)")
	payloadFlag  = flag.Int("payload", 0, "additional `bytes` in the spec of each object (default 0)")
	plotFlag     = flag.String("plot", "", "`file` for a plot of the costs at different sizes; needs -only 'size.*'")
	leanFlag     = flag.Bool("lean", false, "let the library use lean caches")
	workersFlag  = flag.Int("workers", 0, "concurrent reconciles of each operator, and concurrent requests of the load (default 10)")
	profilesFlag = flag.String("profiles", "", "existing `folder` to which each operator process writes CPU and heap profiles")
	kopfFlag     = flag.String("kopf", "", "`folder` of a Python environment with kopf, for -against kopf")
	againstFlag  = flag.String("against", "plain,minimum", "compare with these operators, separated by commas: plain, minimum, kopf")
	onlyFlag     = flag.String("only", ".*", "run only the scenarios whose whole names match this `expression`, such as "+
		"lifecycle, 'lifecycle status.*', backlog, latency, restart or 'timers.*'")
)

// sizesFromFlags returns the sizes that the flags select.
func sizesFromFlags() (sizes, error) {
	s := sizes{rounds: 1, objects: 4, standing: 16, workers: 10, latency: 150 * time.Millisecond, window: 200 * time.Millisecond, timers: []timers{{8, 50 * time.Millisecond}}}
	switch {
	case *measure && *quick:
		s.objects, s.standing, s.latency, s.window = 100, 1000, 2*time.Second, 2*time.Second
	case *measure:
		s.rounds, s.objects, s.standing, s.latency, s.window = 5, 2000, 10000, 15*time.Second, 10*time.Second
	case *quick:
		return s, fmt.Errorf("-quick requires -measure")
	}
	for _, n := range []struct{ flag, size *int }{
		{roundsFlag, &s.rounds}, {objectsFlag, &s.objects}, {standingFlag, &s.standing}, {workersFlag, &s.workers},
	} {
		if *n.flag < 0 {
			return s, fmt.Errorf("numbers must be positive, got %d", *n.flag)
		}
		if *n.flag > 0 {
			*n.size = *n.flag
		}
	}
	if *latencyFlag < 0 {
		return s, fmt.Errorf("-latency must be positive, got %s", *latencyFlag)
	}
	if *latencyFlag > 0 {
		s.latency = *latencyFlag
	}
	s.plotted = []int{4}
	if *measure && !*quick {
		s.plotted = []int{1000, 10000, 100000}
	}
	if *measure {
		s.timers = []timers{{s.standing / 10, time.Second}, {s.standing, 30 * time.Second}}
	}
	s.profiles, s.payload, s.lean = *profilesFlag, max(0, *payloadFlag), *leanFlag
	only, err := regexp.Compile("^(?:" + *onlyFlag + ")$")
	s.only = only
	return s, err
}

// String describes the run.
func (s sizes) String() string {
	return fmt.Sprintf("%s %s/%s, %d CPUs; rounds %d, objects %d, standing %d, payload %d, lean caches %t, workers %d, latency %s",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), s.rounds, s.objects, s.standing, s.payload, s.lean, s.workers, s.latency)
}

// load returns the load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return "load " + one
}

// opponents returns the sides that the library is compared with.
func opponents() (all []side, err error) {
	for name := range strings.SplitSeq(*againstFlag, ",") {
		switch s := side(name); {
		case s == python && *kopfFlag == "":
			return nil, errors.New("-against kopf requires -kopf")
		case s != plain && s != minimum && s != python:
			return nil, fmt.Errorf("-against: unknown operator %q: use plain, minimum or kopf", name)
		default:
			all = append(all, s)
		}
	}
	return all, nil
}
