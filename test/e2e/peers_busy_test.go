package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A busy operator among peers", func() {
	It("starts no handlers during random pauses for half a minute, and loses no change (PEER-50, PEER-51, PEER-53)", func(ctx context.Context) {
		const objects, duration = 10, 30 * time.Second
		ns := newNamespace(ctx)
		other := newLaptop(ctx, ns)
		var widgets []*v1.Widget
		for i := range objects {
			widgets = append(widgets, widget(ns, fmt.Sprint("w", i)))
			create(ctx, widgets[i])
		}
		busy := launchPeer(ns, peerSetup{
			Peers: peering.Options{Identity: "busy", Namespaces: []string{ns}, Mandatory: true},
			Work:  5 * time.Millisecond, Tick: 100 * time.Millisecond,
		})
		Eventually(busy.count("begins daemon")).Should(Equal(objects))

		stop, last := keepEditing(ctx, widgets, 10*time.Millisecond)
		pauses := 0
		for end := time.Now().Add(duration); time.Now().Before(end); pauses++ {
			wait(ctx, rand.N(1200*time.Millisecond))
			other.join(ctx)
			wait(ctx, rand.N(1200*time.Millisecond))
			other.leave(ctx)
		}
		stop()
		for _, w := range widgets {
			Eventually(func() string { return busy.last("done " + w.Name + " ").what }).Should(Equal(last(w)))
			handled(ctx, w)
		}
		running := func() int { return busy.count("begins daemon")() - busy.count("ends daemon")() }
		Eventually(running).Should(Equal(objects), "daemons")
		seen := findViolations(busy.all())
		AddReportEntry("busy", fmt.Sprintf("%d pauses, %+v", pauses, seen))
		Expect(seen.pauses).To(Equal(pauses), "the operator must pause each time")
		Expect(seen.starts).To(BeNumerically(">", 10*pauses), "handlers must start frequently")
		Expect(seen.late).To(BeEmpty(), "no handler may start during a pause")
		Expect(seen.twice).To(BeEmpty(), "no object may have two daemons at a time")
	}, SpecTimeout(3*minute))
})

// tolerance accounts for delayed log lines on a busy machine. A start is not a violation within this time after the
// beginning of a pause, or before its end.
const tolerance = 200 * time.Millisecond

type violations struct {
	pauses, starts int
	late, twice    []string
}

// findViolations compares the calls of handlers with the pauses in the log of the operator.
func findViolations(entries []entry) (v violations) {
	var paused time.Time
	var suspects []entry // starts during the current pause
	daemons := map[string]bool{}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.what, "paused: "):
			if paused.IsZero() {
				paused = e.at
				v.pauses++
			}
		case strings.HasPrefix(e.what, "works: "):
			for _, suspect := range suspects {
				if e.at.Sub(suspect.at) > tolerance {
					v.late = append(v.late, fmt.Sprintf("%s: %s after the beginning", suspect.what, suspect.at.Sub(paused)))
				}
			}
			paused, suspects = time.Time{}, nil
		case strings.HasPrefix(e.what, "begins "):
			v.starts++
			if !paused.IsZero() && e.at.Sub(paused) > tolerance {
				suspects = append(suspects, e)
			}
		}
		if of, begins := strings.CutPrefix(e.what, "begins daemon of "); begins {
			if daemons[of] {
				v.twice = append(v.twice, of)
			}
			daemons[of] = true
		}
		if of, ends := strings.CutPrefix(e.what, "ends daemon of "); ends {
			daemons[of] = false
		}
	}
	return v
}

var _ = Describe("The check of busy operators", func() {
	at := func(ms int, what string) entry { return entry{time.UnixMilli(int64(ms)), what} }

	It("detects a handler that starts during a pause, and a daemon that starts twice", func() {
		v := findViolations([]entry{
			at(0, "works: "), at(10, "begins w"), at(20, "begins daemon of w"),
			at(1000, "paused: "), at(1010, "begins x"), at(1500, "begins y"), at(1950, "begins z"), at(2000, "works: "),
			at(2010, "begins daemon of w"),
		})
		Expect(v).To(Equal(violations{
			pauses: 1, starts: 6, late: []string{"begins y: 500ms after the beginning"}, twice: []string{"w"},
		}))
	})
})
