package kopf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// remoteTest is an operator for ConfigMaps that keeps their progress in Secrets.
type remoteTest struct {
	*testing.T
	cluster *kopftest.Cluster
	calls   []string
	fails   int // the number of attempts of the handler "b" that fail
	change  func(*kopf.Request[configMap])
	faults  []kopftest.Fault
}

func (t *remoteTest) handler(id string) kopf.Handler[configMap] {
	return func(_ context.Context, req *kopf.Request[configMap]) error {
		t.calls = append(t.calls, fmt.Sprintf("%s %s %d", req.Reason, id, req.Attempt.Number))
		if t.change != nil {
			t.change(req)
		}
		if id == "b" && t.fails > 0 {
			t.fails--
			return kopf.Temporary(errors.New("not yet"), time.Second)
		}
		return nil
	}
}

func (t *remoteTest) start(withRemote bool) *kopftest.Operator {
	t.Helper()
	t.calls = nil
	resource := kopf.For(&corev1.ConfigMap{})
	for _, id := range []string{"a", "b"} {
		resource.On(id, []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}, t.handler(id))
	}
	operator := t.cluster.RunManager(t, func(mgr manager.Manager) error {
		options := []kopf.Option{resource}
		if withRemote {
			options = append(options, kopf.WithRemote(&progress.SideObjects{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Secrets: true}))
		}
		return kopf.SetupWithManager(mgr, options...)
	})
	operator.InjectFaults(t.faults...)
	return operator
}

func (t *remoteTest) expectCalls(want ...string) {
	t.Helper()
	if !slices.Equal(t.calls, want) {
		t.Errorf("calls = %q, want %q", t.calls, want)
	}
	t.calls = nil
}

func (t *remoteTest) object() configMap {
	t.Helper()
	obj := newConfigMap("one")
	t.cluster.Get(t, obj)
	return obj
}

func (t *remoteTest) edit(value string) {
	kopftest.Edit(t, t.cluster, newConfigMap("one"), func(obj configMap) { obj.Data = map[string]string{"key": value} })
}

func (t *remoteTest) secrets() []corev1.Secret {
	t.Helper()
	secrets := &corev1.SecretList{}
	if err := t.cluster.Client.List(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}
	return secrets.Items
}

func testRemote(t *testing.T, run func(*remoteTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		run(&remoteTest{T: t, cluster: kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))})
	})
}

func TestWithRemote_KeepsObjectsWithoutAnnotations(t *testing.T) {
	testRemote(t, func(t *remoteTest) {
		t.fails = 2
		t.change = func(req *kopf.Request[configMap]) {
			if req.Reason == kopf.ReasonDelete {
				return
			}
			req.Object.Labels = map[string]string{"handled": fmt.Sprint(req.Attempt.Number)}
			if len(req.Object.Annotations) > 0 && req.Attempt.Number == 0 && req.Reason == kopf.ReasonCreate {
				t.Errorf("annotations = %v, want none before the first attempt", req.Object.Annotations)
			}
		}
		operator := t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls("create a 0", "create b 0", "create b 1", "create b 2")
		t.edit("changed")
		operator.RunUntilQuiet(t)
		t.expectCalls("update a 0", "update b 0")
		obj := t.object()
		if len(obj.Annotations) > 0 || !slices.Equal(obj.Finalizers, []string{kopf.DefaultFinalizer}) {
			t.Errorf("annotations = %v and finalizers = %v, want only the finalizer", obj.Annotations, obj.Finalizers)
		}
		secrets := t.secrets()
		if len(secrets) != 1 || secrets[0].OwnerReferences[0].UID != obj.UID || !strings.Contains(string(secrets[0].Data["progress.json"]), "last-handled-configuration") {
			t.Fatalf("secrets = %v, want one with the last-handled configuration, owned by the object", secrets)
		}
		t.cluster.Delete(t, newConfigMap("one"))
		operator.RunUntilQuiet(t)
		t.expectCalls("delete a 0", "delete b 0")
		if secrets := t.secrets(); len(secrets) > 0 {
			t.Errorf("secrets after the deletion = %v, want none", secrets)
		}
	})
}

func TestWithRemote_ContinuesAfterRestart(t *testing.T) {
	testRemote(t, func(t *remoteTest) {
		t.fails = 1000
		operator := t.start(true)
		<-time.After(2500 * time.Millisecond) // virtual time: 3 attempts
		operator.Stop(t)
		t.expectCalls("create a 0", "create b 0", "create b 1", "create b 2")
		t.fails = 1
		operator = t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls("create b 3", "create b 4")
		operator.Stop(t)
		operator = t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls()
		operator.Stop(t)
		t.edit("changed without operator")
		t.start(true).RunUntilQuiet(t)
		t.expectCalls("update a 0", "update b 0")
	})
}

func TestWithRemote_TakesOverAnnotations(t *testing.T) {
	testRemote(t, func(t *remoteTest) {
		t.fails = 1000
		operator := t.start(false)
		<-time.After(1500 * time.Millisecond) // virtual time: 2 attempts
		operator.Stop(t)
		t.fails = 0
		operator = t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls("create b 2")
		if obj := t.object(); len(obj.Annotations) > 0 {
			t.Errorf("annotations = %v, want none: the progress has moved to the Secret", obj.Annotations)
		}
		t.edit("changed")
		operator.RunUntilQuiet(t)
		t.expectCalls("update a 0", "update b 0")
		operator.Stop(t)
		t.edit("changed again")
		t.start(true).RunUntilQuiet(t)
		t.expectCalls("update a 0", "update b 0")
	})
}

func TestWithRemote_FailedRequests(t *testing.T) {
	for name, fault := range map[string]kopftest.Fault{
		"the first response is lost":   {Verb: "create", Resource: "secrets", Lost: true},
		"two requests fail":            {Verb: "create", Resource: "secrets", Times: 2, Code: 500},
		"the last response is lost":    {Verb: "update", Resource: "secrets", Lost: true},
		"the last request fails":       {Verb: "update", Resource: "secrets", Code: 503},
		"the load fails":               {Verb: "get", Resource: "secrets", Times: 3, Code: 500},
		"the object's response":        {Verb: "patch", Resource: "configmaps", Skip: 1, Lost: true},
		"the object's request fails":   {Verb: "patch", Resource: "configmaps", Skip: 1, Code: 500},
		"the object's response, twice": {Verb: "patch", Resource: "configmaps", Times: 2, Lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			testRemote(t, func(t *remoteTest) {
				t.fails, t.faults = 1, []kopftest.Fault{fault}
				t.change = func(req *kopf.Request[configMap]) {
					if req.Object.Data == nil {
						req.Object.Data = map[string]string{}
					}
					req.Object.Data["calls"] += "x"
				}
				operator := t.start(true)
				operator.RunUntilQuiet(t)
				t.expectCalls("create a 0", "create b 0", "create b 1")
				if got := t.object().Data["calls"]; got != "xxx" {
					t.Errorf("changes of the handlers = %q, want %q", got, "xxx")
				}
				operator.Stop(t)
				t.start(true).RunUntilQuiet(t)
				t.expectCalls()
			})
		})
	}
}

func TestWithRemote_OtherOperatorSaves(t *testing.T) {
	testRemote(t, func(t *remoteTest) {
		operator := t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls("create a 0", "create b 0")
		secret := &t.secrets()[0]
		secret.Labels = map[string]string{"changed": "yes"}
		if err := t.cluster.Client.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		t.edit("changed")
		operator.RunUntilQuiet(t)
		if len(t.calls) < 2 {
			t.Errorf("calls = %q, want both handlers", t.calls)
		}
		t.calls = nil
		t.edit("changed again")
		operator.RunUntilQuiet(t)
		t.expectCalls("update a 0", "update b 0")
	})
}

func TestWithRemote_Errors(t *testing.T) {
	cluster := kopftest.Memory(t)
	for want, remote := range map[string]progress.Remote{
		"WithRemote(nil)":     nil,
		"the SideObjects are": (*progress.SideObjects)(nil),
		"has no Client":       &progress.SideObjects{},
		"has no Reader":       &progress.SideObjects{Client: cluster.Client},
		"the prefix \"a_b\"":  &progress.SideObjects{Client: cluster.Client, Reader: cluster.Client, Prefix: "a_b"},
	} {
		mgr, err := manager.New(cluster.Config, manager.Options{})
		if err != nil {
			t.Fatal(err)
		}
		resource := kopf.For(&corev1.ConfigMap{}).OnCreate("a", func(context.Context, *kopf.Request[configMap]) error { return nil })
		if err := kopf.SetupWithManager(mgr, resource, kopf.WithRemote(remote)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
	side := &progress.SideObjects{Client: cluster.Client, Reader: cluster.Client}
	node := &corev1.Node{}
	if _, err := side.Load(t.Context(), node); err == nil || !strings.Contains(err.Error(), "no uid") {
		t.Errorf("error = %v, want one about the uid", err)
	}
	node.UID = "1"
	if _, err := side.Load(t.Context(), node); err == nil || !strings.Contains(err.Error(), "set the namespace") {
		t.Errorf("error = %v, want one about the namespace", err)
	}
	foreign := &corev1.ConfigMap{}
	foreign.Namespace, foreign.Name = "default", "kopf-progress-1"
	if err := cluster.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	side.Namespace = "default"
	if _, err := side.Load(t.Context(), node); err == nil || !strings.Contains(err.Error(), "does not belong to this object") {
		t.Errorf("error = %v, want one about the foreign ConfigMap", err)
	}
}

func TestWithRemote_DeletedNamespace(t *testing.T) {
	testRemote(t, func(t *remoteTest) {
		t.fails = 3
		operator := t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls("create a 0", "create b 0", "create b 1", "create b 2", "create b 3")
		t.fails = 3
		// The namespace controller deletes the Secrets, and the API server rejects new ones.
		operator.InjectFaults(kopftest.Fault{Verb: "create", Resource: "secrets", Times: -1, Code: http.StatusForbidden})
		for _, secret := range t.secrets() {
			t.cluster.Delete(t, &secret)
		}
		t.cluster.Delete(t, newConfigMap("one"))
		operator.RunUntilQuiet(t)
		t.expectCalls("delete a 0", "delete b 0", "delete b 1", "delete b 2", "delete b 3")
	})
}

// In a foreground deletion, the garbage collector deletes the side objects before the object.
func TestWithRemote_ForegroundDeletion(t *testing.T) {
	testRemote(t, func(t *remoteTest) {
		operator := t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls("create a 0", "create b 0")
		t.fails = 5
		t.cluster.Delete(t, newConfigMap("one"))
		for range 100 {
			<-time.After(100 * time.Millisecond)
			for _, secret := range t.secrets() {
				t.cluster.Delete(t, &secret)
			}
		}
		operator.RunUntilQuiet(t)
		t.expectCalls("delete a 0", "delete b 0", "delete b 1", "delete b 2", "delete b 3", "delete b 4", "delete b 5")
	})
}

// A handler changes a watched field of the status, so that the pin is saved first. Another client has changed the side object.
func TestWithRemote_ConflictOfPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func() *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
		}
		cluster := kopftest.Memory(t, kopftest.Objects(pod()))
		updates := 0
		ignore := func(context.Context, *kopf.Request[*corev1.Pod]) error { return nil }
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopf.WithRemote(&progress.SideObjects{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Secrets: true}),
				kopf.For(&corev1.Pod{}).OnCreate("create", ignore).OnField("message", "status.message", ignore).
					OnUpdate("update", func(_ context.Context, req *kopf.Request[*corev1.Pod]) error {
						updates++
						req.Object.Status.Message = req.Object.Labels["a"]
						return nil
					}))
		})
		operator.RunUntilQuiet(t)
		secrets := &corev1.SecretList{}
		if err := cluster.Client.List(t.Context(), secrets); err != nil || len(secrets.Items) != 1 {
			t.Fatalf("error = %v, secrets = %v, want one", err, secrets.Items)
		}
		kopftest.Edit(t, cluster, &secrets.Items[0], func(s *corev1.Secret) { s.Labels = map[string]string{"backup": "yes"} })
		kopftest.Edit(t, cluster, pod(), func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
		<-time.After(time.Minute)
		got := pod()
		cluster.Get(t, got)
		if updates > 3 || got.Status.Message != "b" {
			t.Errorf("message = %q after %d calls in a minute, want \"b\" after 3 at most", got.Status.Message, updates)
		}
	})
}

// documents is a Remote in memory.
type documents map[types.UID]progress.Snapshot

func (d documents) Load(_ context.Context, obj client.Object) (progress.Snapshot, error) {
	return d[obj.GetUID()], nil
}

func (d documents) Save(_ context.Context, obj client.Object, s progress.Snapshot) (string, error) {
	if d[obj.GetUID()].Version != s.Version {
		return "", progress.ErrConflict
	}
	if len(s.Data) == 0 {
		delete(d, obj.GetUID())
		return "", nil
	}
	s.Version += "x"
	d[obj.GetUID()] = s
	return s.Version, nil
}

func TestWithRemote_DeletesDocumentsOfObjectsWithoutFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote, cluster := documents{}, kopftest.Memory(t)
		operator := cluster.Run(t, kopf.WithRemote(remote), kopf.For(&corev1.ConfigMap{}).
			OnCreate("create", func(context.Context, *kopf.Request[configMap]) error { return nil }))
		cluster.Create(t, newConfigMap("one"))
		operator.RunUntilQuiet(t)
		if len(remote) != 1 {
			t.Errorf("documents = %v, want one", remote)
		}
		cluster.Delete(t, newConfigMap("one"))
		operator.RunUntilQuiet(t)
		if len(remote) > 0 {
			t.Errorf("documents = %v, want none after the deletion", remote)
		}
	})
}

// An object that loses its labels during its deletion still exists. Its progress is kept for the operator that continues.
func TestWithRemote_KeepsDocumentsOfObjectsThatAreOutOfScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, remote := newConfigMap("one", "team", "a"), documents{}
		cluster, calls, fail := kopftest.Memory(t, kopftest.Objects(one)), &steps{}, true
		operator := cluster.Run(t, kopf.WithRemote(remote), kopf.WithWatchSelector("team=a"), kopf.For(&corev1.ConfigMap{}).
			OnDelete("first", func(context.Context, *kopf.Request[configMap]) error {
				calls.add("first")
				return nil
			}).
			OnDelete("second", func(context.Context, *kopf.Request[configMap]) error {
				calls.add("second")
				if fail {
					return kopf.Temporary(errors.New("not yet"), time.Hour)
				}
				return nil
			}))
		setTeam := func(value string) {
			kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Labels = map[string]string{"team": value} })
			<-time.After(time.Minute)
		}
		<-time.After(time.Minute)
		cluster.Delete(t, newConfigMap("one"))
		<-time.After(time.Minute)
		setTeam("b")
		if len(remote) != 1 {
			t.Errorf("documents = %v, want one: the object still exists", remote)
		}
		fail = false
		setTeam("a")
		operator.RunUntilQuiet(t)
		calls.expect(t, "after the return", "first", "second", "second")
		if len(remote) > 0 {
			t.Errorf("documents = %v, want none after the deletion", remote)
		}
	})
}

// A user who may write only the side objects must not change what handlers see of the objects.
func TestWithRemote_UsesOnlyTheProgressOfSideObjects(t *testing.T) {
	testRemote(t, func(t *remoteTest) {
		operator := t.start(true)
		operator.RunUntilQuiet(t)
		operator.Stop(t)
		secrets := t.secrets()
		if len(secrets) != 1 {
			t.Fatalf("there are %d side objects, want one", len(secrets))
		}
		var part map[string]any
		if err := json.Unmarshal(secrets[0].Data["progress.json"], &part); err != nil {
			t.Fatal(err)
		}
		part["data"] = map[string]any{"key": "forged", "other": "forged"}
		part["binaryData"] = nil
		meta := part["metadata"].(map[string]any)
		meta["labels"] = map[string]any{"forged": "true"}
		meta["deletionTimestamp"], meta["uid"], meta["name"] = "2000-01-01T00:00:00Z", "forged", "forged"
		meta["annotations"].(map[string]any)["forged"] = "true"
		forged, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		secrets[0].Data["progress.json"] = forged
		if err := t.cluster.Client.Update(t.Context(), &secrets[0]); err != nil {
			t.Fatal(err)
		}
		t.change = func(req *kopf.Request[configMap]) {
			obj := req.Object
			if obj.Data["key"] != "changed" || len(obj.Data) != 1 || len(obj.Labels) > 0 || obj.Annotations["forged"] != "" || obj.Name != "one" || obj.DeletionTimestamp != nil {
				t.Errorf("the handler receives forged fields: %v %v", obj.ObjectMeta, obj.Data)
			}
		}
		t.edit("changed")
		operator = t.start(true)
		operator.RunUntilQuiet(t)
		t.expectCalls("update a 0", "update b 0")
		if obj := t.object(); obj.Data["key"] != "changed" || len(obj.Data) != 1 || len(obj.Labels) > 0 {
			t.Errorf("the operator has written forged fields: %v %v", obj.ObjectMeta, obj.Data)
		}
	})
}

// Ignored fields are not a part of the baseline, but they belong to the object.
func TestIgnoringFields_StayOnTheObject(t *testing.T) {
	for name, withRemote := range map[string]bool{"annotations": false, "side objects": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newConfigMap("one")
				one.Data = map[string]string{"ignored": "1", "key": "1"}
				cluster := kopftest.Memory(t, kopftest.Objects(one))
				var seen []string
				operator := cluster.RunManager(t, func(mgr manager.Manager) error {
					options := []kopf.Option{
						kopf.WithBaseline(progress.IgnoringFields(progress.AnnotationBaseline(""), "data.ignored")),
						kopf.For(&corev1.ConfigMap{}).OnCreateOrUpdate("all", func(_ context.Context, req *kopf.Request[configMap]) error {
							seen = append(seen, req.Object.Data["ignored"])
							req.Object.Data["own"] = "x"
							if req.Reason == kopf.ReasonUpdate {
								req.Object.Data["ignored"] = "3"
							}
							return nil
						}),
					}
					if withRemote {
						options = append(options, kopf.WithRemote(&progress.SideObjects{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Secrets: true}))
					}
					return kopf.SetupWithManager(mgr, options...)
				})
				operator.RunUntilQuiet(t)
				kopftest.Edit(t, cluster, newConfigMap("one"), func(c configMap) { c.Data["ignored"] = "2" })
				operator.RunUntilQuiet(t)
				kopftest.Edit(t, cluster, newConfigMap("one"), func(c configMap) { c.Data["key"] = "2" })
				operator.RunUntilQuiet(t)
				if want := []string{"1", "2"}; !slices.Equal(seen, want) {
					t.Errorf("handlers have seen the values %q, want %q", seen, want)
				}
				cluster.Get(t, one)
				if want := map[string]string{"ignored": "3", "key": "2", "own": "x"}; !maps.Equal(one.Data, want) {
					t.Errorf("data = %v, want %v", one.Data, want)
				}
			})
		})
	}
}
