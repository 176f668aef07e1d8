package python

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestThereAndBack changes the side in the middle of each cycle, so that each one finds what the others have left.
func TestThereAndBack(t *testing.T) {
	s := needAll(t)
	for _, sides := range [][]string{
		{ours, "kopf-1.44", ours, "kopf-1.45", ours},
		{"kopf-1.44", ours, "kopf-1.45", "kopf-1.44", ours},
		{"kopf-1.45", ours, ours, "kopf-1.45", "kopf-1.44"},
	} {
		for _, place := range places {
			t.Run(strings.Join(sides, ",")+"/"+place.name, func(t *testing.T) {
				t.Parallel()
				leave := map[string]bool{}
				reply := func(c call, earlier int) answer {
					if leave[c.Process] && c.Handler == "work" && (earlier > 0 || c.Retry == 0) {
						return answer{Do: doTemporary, Delay: 1}
					}
					return answer{Do: doSucceed, Event: true}
				}
				w := newWorld(t, s, reply, handler{ID: "work", Causes: []string{"create", "update"}}, handler{ID: "size", Causes: []string{"field"}, Field: field})
				w.declared.Store, w.declared.Prefix, w.declared.Finalizer = place.store, place.prefix, place.finalizer
				for i := range len(sides) - 1 {
					leave[fmt.Sprint(i)] = true
				}
				var last thing
				handled := func() []string {
					if last = w.get("one"); last == nil {
						return []string{"the object is missing"}
					}
					return place.isHandled(last)
				}
				isDone := func() []string {
					return append(handled(), place.leftovers(last, ours, sides[len(sides)-1])...)
				}
				// Each process finishes the change of its predecessor, and begins one of its own.
				for i, side := range sides {
					name := fmt.Sprint(i)
					p := w.start(side, name, 0)
					if i > 0 {
						w.await(p, handled)
					}
					if i == len(sides)-1 {
						w.await(p, isDone)
						break
					}
					if i == 0 {
						w.create("one")
					} else {
						w.edit("one", i+1)
					}
					w.await(p, func() []string {
						obj := w.get("one")
						stored, err := place.record(obj, "work")
						if err != nil || stored == nil || stored.Retries == 0 || stored.finished() || len(place.isHandled(obj)) == 0 {
							return []string{fmt.Sprintf("work is not yet waiting: %+v, %v", stored, err)}
						}
						if stored, err = place.record(obj, "size/"+field); err != nil || !stored.finished() {
							return []string{fmt.Sprintf("size has not yet finished: %+v, %v", stored, err)}
						}
						return nil
					})
					p.kill()
				}
				var want []string
				for i := range len(sides) - 1 {
					cause := "update"
					if i == 0 {
						cause = "create"
					}
					want = append(want, fmt.Sprintf("%d size %s#0", i, cause))
				}
				if got := short(callsOf(w.log.of("one", ""), "size")); !reflect.DeepEqual(got, want) {
					t.Errorf("the calls of size are %q instead of %q", got, want)
				}
				calls := callsOf(w.log.of("one", ""), "work")
				for i := 1; i < len(calls); i++ {
					switch before, c := calls[i-1], calls[i]; {
					case c.Cause == before.Cause && c.Retry == before.Retry+1:
					case c.Retry == before.Retry && c.Process != before.Process: // killed before the record was written
					case c.Retry == 0 && c.Cause == "update":
						if old := sizeOf(c.Old); old != sizeOf(before.New) {
							t.Errorf("%s was called with the old size %v", short([]call{c}), old)
						}
					default:
						t.Errorf("the calls of work are %q", short(calls))
					}
				}
				w.checkEvents(sides)
			})
		}
	}
}

// checkEvents checks that both sides have posted Events about the object.
func (w *world) checkEvents(sides []string) {
	w.t.Helper()
	found := await(w.ctx, deadline, func() (missing []string) {
		list := &corev1.EventList{}
		must(w.t, w.List(w.ctx, list, client.InNamespace(w.ns)))
		for _, reporter := range []bool{true, false} {
			ofKopf := func(e corev1.Event) bool {
				return e.InvolvedObject.Name == "one" && e.Reason == "Called" && (e.ReportingController == "kopf" || e.Source.Component == "kopf") == reporter
			}
			if !slices.ContainsFunc(list.Items, ofKopf) {
				missing = append(missing, fmt.Sprintf("no Event, of kopf: %t; sides: %q", reporter, sides))
			}
		}
		return missing
	})
	if len(found) > 0 {
		w.t.Error(found)
	}
}

func TestDaemonsAndTimers(t *testing.T) {
	s := needAll(t)
	pairs(t, func(t *testing.T, from, to string) {
		w := newWorld(t, s, always(succeed), handler{ID: "watch", Daemon: true}, handler{ID: "tick", Interval: 0.3})
		p := w.start(from, "from", 0)
		for _, name := range []string{"stays", "deleted"} {
			w.create(name)
			w.await(p, func() []string {
				return append(append(w.called(name, "from", "daemon", 1), w.called(name, "from", "timer", 2)...), w.stored(name)...)
			})
		}
		p.kill()
		w.remove("deleted")

		p = w.start(to, "to", 0)
		w.await(p, func() []string {
			return append(append(w.called("stays", "to", "daemon", 1), w.called("stays", "to", "timer", 2)...), w.gone("deleted")...)
		})
		w.remove("stays")
		w.await(p, func() []string { return append(w.gone("stays"), w.called("stays", "to", "stopped", 1)...) })
		for _, c := range w.log.of("stays", "to") {
			if c.Cause == "daemon" && c.Retry != 0 {
				t.Errorf("the daemon of the process that takes over has the retry %d", c.Retry)
			}
		}
	})
}

func (w *world) stored(name string) []string {
	obj := w.get(name)
	if obj == nil || !slices.Contains(obj.GetFinalizers(), places[0].finalizerName()) {
		return []string{name + " has no finalizer"}
	}
	return nil
}

// kopf takes a request to call a handler neither for an edit nor for a record, and the operator in Go answers it later.
func TestRequests_AreLeftAlone(t *testing.T) {
	s := needAll(t)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, s, always(succeed), handler{ID: "work", Causes: []string{"create", "update"}})
			p := w.start(version, version, 0)
			w.create("one")
			w.await(p, func() []string {
				return append(w.called("one", version, "create", 1), places[0].isHandled(w.get("one"))...)
			})
			const request, answer = defaultPrefix + "/retry.work", defaultPrefix + "/retried.work"
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"now",%q:%q}}}`, request, answer, `{"request":"before","outcome":"failed"}`)
			must(t, w.Patch(w.ctx, w.newThing(w.ns, "one"), client.RawPatch("application/merge-patch+json", []byte(patch))))
			w.edit("one", 2) // shows that kopf has seen the request
			w.await(p, func() []string {
				return append(w.called("one", version, "update", 1), places[0].isHandled(w.get("one"))...)
			})
			if calls := w.log.of("one", version); len(calls) != 2 {
				t.Errorf("kopf has called %q, want one creation and one update", short(calls))
			}
			if text := w.get("one").GetAnnotations()[request]; text != "now" {
				t.Errorf("the request is %q", text)
			}
			p.kill()
			p = w.start(ours, ours, 0)
			w.await(p, func() []string {
				if text := w.get("one").GetAnnotations()[answer]; text != `{"request":"now","outcome":"succeeded"}` {
					return []string{"the answer is " + text}
				}
				return w.called("one", ours, "update", 1)
			})
		})
	}
}

// Without the status subresource, records and baselines in the status are written with the object itself.
func TestTakeOver_WithoutStatusSubresource(t *testing.T) {
	s := *needAll(t)
	s.gvk = plainKind
	pairs(t, func(t *testing.T, from, to string) {
		for _, place := range places {
			if place.store != "smart" && place.store != "status" {
				continue
			}
			o := takeOver{suite: &s, place: place, from: from, to: to, scenarios: scenarios(func(string, state) bool { return true })}
			for object, wrong := range o.run(t) {
				t.Errorf("%s, %s: %q", place.name, object, wrong)
			}
		}
	})
}

// TestTakeOver_UnknownKeys adds keys to the records that no version knows.
func TestTakeOver_UnknownKeys(t *testing.T) {
	s := needAll(t)
	pairs(t, func(t *testing.T, from, to string) {
		o := takeOver{
			suite: s, place: places[1], from: from, to: to,
			scenarios: scenarios(func(_ string, s state) bool {
				return slices.Contains([]string{"waiting", "succeeded", "subs", "long"}, s.name)
			}),
		}
		o.tamper = func(annotation string) string {
			return strings.Replace(annotation, `{"started":`, `{"future":{"key":[1]},"other":null,"started":`, 1)
		}
		for object, wrong := range o.run(t) {
			t.Errorf("%s: %q", object, wrong)
		}
	})
}
