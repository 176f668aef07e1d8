package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// deeds are what an operator has done with each object: the cause and the handlers.
type deeds struct {
	mu   sync.Mutex
	done map[string][]string
}

func (d *deeds) add(name, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = map[string][]string{}
	}
	if !slices.Contains(d.done[name], what) {
		d.done[name] = append(d.done[name], what)
	}
}

// counts returns how many objects have had the same done to them.
func (d *deeds) counts() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]int{}
	for _, done := range d.done {
		slices.Sort(done)
		all[strings.Join(done, ", ")]++
	}
	return all
}

func (d *deeds) handler(id string) kopf.Handler[*v1.Widget] {
	return func(_ context.Context, req *kopf.Request[*v1.Widget]) error {
		d.add(req.Object.Name, string(req.Reason)+" "+id)
		return nil
	}
}

// deedsOf are the versions of an operator.
var deedsOf = map[string]func(*deeds) kopf.Option{
	"creations and updates": func(d *deeds) kopf.Option {
		return kopf.For(&v1.Widget{}).OnCreate("create", d.handler("create")).OnUpdate("update", d.handler("update"))
	},
	"deletions": func(d *deeds) kopf.Option {
		return kopf.For(&v1.Widget{}).OnCreateOrUpdate("apply", d.handler("apply")).OnDelete("delete", d.handler("delete"))
	},
	"fields": func(d *deeds) kopf.Option {
		return kopf.For(&v1.Widget{}).OnField("size", "spec.size", d.handler("size/spec.size")).OnResume("resume", d.handler("resume"))
	},
	"a daemon": func(d *deeds) kopf.Option {
		return kopf.For(&v1.Widget{}).OnUpdate("update", d.handler("update"), kopf.Label("team")).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[*v1.Widget]) error {
				d.add(req.Object.Name, "starts daemon/spec.size")
				<-ctx.Done()
				return nil
			}, kopf.Field("spec.size"))
	},
}

var _ = Describe("A preview", func() {
	DescribeTable("says what the first cycle of the new version does, after", func(ctx context.Context, before, after string) {
		ns := newNamespace(ctx)
		edits := map[string]func(*v1.Widget){
			"nothing": func(*v1.Widget) {}, "size": func(w *v1.Widget) { w.Spec.Size++ }, "color": func(w *v1.Widget) { w.Spec.Color = "blue" },
			"label": func(w *v1.Widget) { w.Labels = map[string]string{"team": "a"} }, "status": func(w *v1.Widget) { w.Status.Phase = "x" },
			"annotation": func(w *v1.Widget) { w.Annotations["note"] = "x" }, "deleted": nil,
		}
		for name := range edits {
			create(ctx, widget(ns, name))
		}
		if declare := deedsOf[before]; declare != nil {
			old := start(ns, options(declare(&deeds{})))
			for name := range edits {
				Eventually(fresh(ctx, widget(ns, name))).Should(Or(HaveField("Annotations", HaveKey(baselineKey)), HaveField("Finalizers", Not(BeEmpty()))))
			}
			old.stop()
		}
		for name, change := range edits {
			if change == nil {
				remove(ctx, widget(ns, name))
			} else {
				edit(ctx, widget(ns, name), func(w *v1.Widget) {
					if w.Annotations == nil {
						w.Annotations = map[string]string{}
					}
					change(w)
				})
			}
		}
		report, err := kopf.New(newManager(ns, &logRecorder{}), deedsOf[after](&deeds{})).Preview(ctx)
		Expect(err).NotTo(HaveOccurred())
		want := map[string]int{}
		for _, group := range report.Kinds[0].Groups {
			var what []string
			for _, id := range group.Handlers {
				what = append(what, group.Cause+" "+id)
			}
			for _, id := range group.Starts {
				what = append(what, "starts "+id)
			}
			if slices.Sort(what); len(what) > 0 {
				want[strings.Join(what, ", ")] += group.Objects
			}
		}
		is := &deeds{}
		op := start(ns, options(deedsOf[after](is)))
		Eventually(is.counts).Should(Equal(want), fmt.Sprintf("%+v", report))
		Consistently(is.counts).WithTimeout(time.Second).Should(Equal(want))
		op.stop()
	}, func() (entries []TableEntry) {
		versions := slices.Sorted(maps.Keys(deedsOf))
		for _, before := range append([]string{"nothing"}, versions...) {
			for _, after := range versions {
				entries = append(entries, Entry(before+", "+after, SpecTimeout(minute), before, after))
			}
		}
		return entries
	}())
})
