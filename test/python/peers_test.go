package python

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// peers makes the operators of a world peers, at objects of both groups.
func (w *world) peers(clusterwide bool) {
	w.t.Helper()
	w.declared.Peering, w.declared.Clusterwide, w.declared.Lifetime = w.ns, clusterwide, 12
	for _, group := range []string{"kopf.dev", oldGroup} {
		must(w.t, w.Create(w.ctx, w.peeringObject(group)))
	}
}

func (w *world) peeringObject(group string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "ClusterKopfPeering"})
	if !w.declared.Clusterwide {
		obj.SetKind("KopfPeering")
		obj.SetNamespace(w.ns)
	}
	obj.SetName(w.ns)
	return obj
}

// isPeer returns a problem until the operator has written its record. Both sides call no handlers before they have read the records of others.
func (w *world) isPeer(name string) func() []string {
	return func() []string {
		for _, group := range []string{"kopf.dev", oldGroup} {
			if _, ok := w.peeringStatus(group)[name]; !ok {
				return []string{"the record in the group " + group + " is missing"}
			}
		}
		return nil
	}
}

// isPaused returns a problem until a running operator has reported a pause.
func (w *world) isPaused(p *process) func() []string {
	return func() []string {
		// kopf says "Pausing", the operator in Go says "Paused".
		if !strings.Contains(p.tail(1000), "Paus") {
			return []string{"the operator has not paused"}
		}
		return nil
	}
}

// stop ends the process with SIGTERM, so that it removes its record.
func (w *world) stop(p *process) {
	w.t.Helper()
	must(w.t, p.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.exited:
	case <-time.After(deadline):
		w.t.Fatalf("the operator has not stopped:\n%s", p.tail(30))
	}
}

// work adds handlers for objects. Operators for the whole cluster would otherwise handle the objects of other tests, too.
func (w *world) work(objects ...string) {
	for _, object := range objects {
		w.declared.Handlers = append(w.declared.Handlers, handler{ID: "work-" + object, Causes: []string{"create"}, Case: object})
	}
}

func TestPeers_ThePriorityDecides(t *testing.T) {
	s := needKopf(t)
	for _, sides := range [][]string{
		{ours, "kopf-1.45", "kopf-1.44"},
		{"kopf-1.44", ours, "kopf-1.45"},
		{"kopf-1.45", "kopf-1.44", ours},
	} {
		for _, clusterwide := range []bool{false, true} {
			if *quick && (clusterwide || sides[0] != ours) {
				continue
			}
			t.Run(fmt.Sprintf("%s/clusterwide=%t", strings.Join(sides, ","), clusterwide), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, s, always(succeed))
				objects := []string{"first-" + w.ns, "second-" + w.ns, "third-" + w.ns}
				w.work(objects...)
				w.peers(clusterwide)
				var processes []*process
				for i, side := range sides {
					p := w.start(side, side, 100-10*i)
					processes = append(processes, p)
					w.await(p, w.isPeer(side))
				}
				for i, side := range sides {
					w.create(objects[i])
					w.await(processes[i], func() []string {
						return append(w.called(objects[i], side, "create", 1), places[0].isHandled(w.get(objects[i]))...)
					})
					if i == 0 {
						w.stop(processes[i])
					} else {
						processes[i].kill() // the record expires
					}
				}
				for i, side := range sides {
					if got := short(w.log.of(objects[i], "")); len(got) != 1 {
						t.Errorf("%s was handled by %q instead of once by %s", objects[i], got, side)
					}
				}
			})
		}
	}
}

func TestPeers_EqualPrioritiesPauseAll(t *testing.T) {
	s := needAll(t)
	pairs(t, func(t *testing.T, older, newer string) {
		w := newWorld(t, s, always(succeed))
		w.work("one")
		w.peers(false)
		p := w.start(older, older, 0)
		w.await(p, w.isPeer(older))
		other := w.start(newer, newer, 0)
		w.await(other, w.isPeer(newer))
		w.await(p, w.isPaused(p))
		w.create("one")
		stopped := time.Now()
		w.stop(other)
		w.await(p, func() []string { return w.called("one", older, "create", 1) })
		if calls := w.log.of("one", ""); len(calls) != 1 || !since(calls, stopped) {
			t.Errorf("paused operators have called %q", short(calls))
		}
	})
}

// Since 1.45, operators of kopf with a shard selector work beside others with the same priority.
func TestPeers_Share(t *testing.T) {
	s := needAll(t)
	w := newWorld(t, s, always(succeed), handler{ID: "work", Causes: []string{"create"}})
	w.peers(false)
	sides := []string{ours, "kopf-1.45"}
	var processes []*process
	for _, side := range sides {
		w.declared.Share = side
		p := w.start(side, side, 0)
		processes = append(processes, p)
		w.await(p, w.isPeer(side))
	}
	for i, side := range sides {
		obj := w.newThing(w.ns, side)
		obj.SetLabels(map[string]string{"share": side})
		must(t, w.Create(w.ctx, obj))
		w.await(processes[i], func() []string { return w.called(side, side, "create", 1) })
	}
	for _, side := range sides {
		if calls := w.log.of(side, ""); len(calls) != 1 {
			t.Errorf("%s was handled by %q", side, short(calls))
		}
	}
}

// An operator in Go pauses for one in Python whose clock is wrong, and continues when it no longer renews its record.
func TestPeers_SkewedClocks(t *testing.T) {
	s := needAll(t)
	for _, version := range versions {
		for _, skew := range []int{-600, 600} {
			t.Run(fmt.Sprintf("%s/%ds", version, skew), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, s, always(succeed))
				w.work("one", "two")
				w.peers(false)
				w.declared.Skew = skew
				other := w.start(version, version, 10)
				w.await(other, w.isPeer(version))
				p := w.start(ours, ours, 0)
				w.await(p, w.isPaused(p))
				w.create("one")
				w.await(other, func() []string {
					return append(w.called("one", version, "create", 1), places[0].isHandled(w.get("one"))...)
				})
				killed := time.Now()
				other.kill()
				w.create("two")
				w.await(p, func() []string { return w.called("two", ours, "create", 1) })
				if calls := w.log.of("two", ours); calls[0].at.Sub(killed) < 6*time.Second {
					t.Errorf("the operator has continued %s after the last record of its peer, with a lifetime of 12 s", calls[0].at.Sub(killed))
				}
				if calls := w.log.of("one", ours); len(calls) > 0 {
					t.Errorf("the operator has called %q", short(calls))
				}
			})
		}
	}
}

func (w *world) peeringStatus(group string) map[string]any {
	w.t.Helper()
	obj := w.peeringObject(group)
	must(w.t, w.Get(w.ctx, client.ObjectKeyFromObject(obj), obj))
	status, _, err := unstructured.NestedMap(obj.Object, "status")
	must(w.t, err)
	return status
}

func TestPeers_Freeze(t *testing.T) {
	s := needKopf(t)
	pairs(t, func(t *testing.T, freezing, frozen string) {
		if *quick && frozen != ours {
			t.Skip("-quick")
		}
		w := newWorld(t, s, always(succeed))
		w.work("before", "one")
		w.peers(false)
		p := w.start(frozen, frozen, 10)
		w.create("before")
		w.await(p, func() []string { return w.called("before", frozen, "create", 1) })
		w.freeze(freezing)
		w.await(p, w.isPaused(p))
		w.create("one")
		thawed := time.Now()
		w.resume(freezing)
		w.await(p, func() []string { return w.called("one", frozen, "create", 1) })
		if calls := w.log.of("one", ""); len(calls) != 1 || !since(calls, thawed) {
			t.Errorf("the frozen operator has called %q", short(calls))
		}
	})
}

const freezer = "the-one-who-freezes"

func (w *world) freeze(side string) {
	w.t.Helper()
	if side != ours {
		w.command(side, "freeze", "--priority", "100", "--lifetime", "600", "--message", "moving")
		return
	}
	_, err := w.peeringClient().Freeze(w.ctx, peering.Target{Name: w.ns, Namespaces: []string{w.ns}}, freezer,
		peering.Record{Priority: 100, Lifetime: 10 * time.Minute, Message: "moving"})
	must(w.t, err)
}

func (w *world) resume(side string) {
	w.t.Helper()
	if side != ours {
		w.command(side, "resume")
		return
	}
	_, err := w.peeringClient().Resume(w.ctx, peering.Target{Name: w.ns, Namespaces: []string{w.ns}}, freezer)
	must(w.t, err)
}

func (w *world) peeringClient() *peering.Client {
	w.t.Helper()
	httpClient, err := rest.HTTPClientFor(w.config)
	must(w.t, err)
	c, err := peering.NewClient(w.config, httpClient)
	must(w.t, err)
	return c
}

// command runs kopf's command.
func (w *world) command(version, name string, more ...string) {
	w.t.Helper()
	args := append([]string{name, "--namespace", w.ns, "--peering", w.ns, "--id", freezer}, more...)
	command := exec.CommandContext(w.ctx, filepath.Join(*environments, version, "bin", "kopf"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig)
	if output, err := command.CombinedOutput(); err != nil {
		w.t.Fatalf("kopf %s: %v\n%s", name, err, output)
	}
}
