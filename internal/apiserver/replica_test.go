package apiserver_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
)

// A lagging is a server with a config map in two states, and a lagging replica that has only the first state. It has
// a client for each of the two.
type lagging struct {
	server  *apiserver.Server
	replica *apiserver.Replica
	users   client.WithWatch
	reader  client.WithWatch
	old     int64 // version of the first state
	now     int64
}

func newLagging(t *testing.T) *lagging {
	t.Helper()
	l := &lagging{server: apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...)}
	l.replica = l.server.Replica()
	l.users = newClient(t, l.server)
	var err error
	l.reader, err = client.NewWithWatch(replicaConfig(l.replica), client.Options{Scheme: clientgoscheme.Scheme})
	must(t, err)
	obj := configMap("one")
	obj.Data = map[string]string{"state": "old"}
	must(t, l.users.Create(t.Context(), obj))
	l.old = l.server.CurrentVersion()
	obj.Data["state"] = "new"
	must(t, l.users.Update(t.Context(), obj))
	l.now = l.server.CurrentVersion()
	l.replica.LagAt(l.old)
	return l
}

func replicaConfig(r *apiserver.Replica) *rest.Config {
	return &rest.Config{Host: "http://in-memory", Transport: r, QPS: -1}
}

// list returns the state of the config map in a list, and the version of the list.
func (l *lagging) list(t *testing.T, options metav1.ListOptions) (state, version string, err error) {
	t.Helper()
	list := &corev1.ConfigMapList{}
	if err := l.reader.List(t.Context(), list, &client.ListOptions{Raw: &options}); err != nil {
		return "", "", err
	}
	if len(list.Items) != 1 {
		t.Fatalf("list has %d items, want 1", len(list.Items))
	}
	return list.Items[0].Data["state"], list.ResourceVersion, nil
}

func TestReplica_ReadsAnOlderVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLagging(t)
		old, now := strconv.FormatInt(l.old, 10), strconv.FormatInt(l.now, 10)
		for name, test := range map[string]struct {
			options        metav1.ListOptions
			state, version string
		}{
			"any version":               {metav1.ListOptions{ResourceVersion: "0"}, "old", old},
			"a consistent read":         {metav1.ListOptions{}, "new", now},
			"not older, from the cache": {metav1.ListOptions{ResourceVersion: old, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, "old", old},
			"exact, old":                {metav1.ListOptions{ResourceVersion: old, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, "old", old},
			"exact, new":                {metav1.ListOptions{ResourceVersion: now, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, "new", now},
		} {
			state, version, err := l.list(t, test.options)
			if err != nil || state != test.state || version != test.version {
				t.Errorf("%s: state %q in version %s, error %v; want %q in version %s", name, state, version, err, test.state, test.version)
			}
		}

		began := time.Now()
		_, _, err := l.list(t, metav1.ListOptions{ResourceVersion: now})
		if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("list of a version that the cache has not reached: %v, want a timeout", err)
		}
		if waited := time.Since(began); waited < 3*time.Second {
			t.Errorf("the replica waited %s for the version, want 3s", waited)
		}

		obj := configMap("one")
		must(t, l.reader.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		if obj.Data["state"] != "new" {
			t.Errorf("consistent get: %v, want the new state", obj.Data)
		}
		must(t, l.reader.Get(t.Context(), client.ObjectKeyFromObject(obj), obj, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}))
		if obj.Data["state"] != "old" {
			t.Errorf("get of any version: %v, want the old state", obj.Data)
		}
		if err := l.reader.Update(t.Context(), obj); !apierrors.IsConflict(err) {
			t.Errorf("update of the old state: %v, want a conflict", err)
		}

		l.replica.CatchUp()
		if state, version, err := l.list(t, metav1.ListOptions{ResourceVersion: "0"}); err != nil || state != "new" || version != now {
			t.Errorf("after CatchUp: state %q in version %s, error %v; want new in version %s", state, version, err, now)
		}
	})
}

// Like the transport of a real client, a replica returns the error of the context if the context ends while the replica waits for its cache.
func TestReplica_ReturnsTheErrorOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLagging(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		version := metav1.ListOptions{ResourceVersion: strconv.FormatInt(l.now, 10)}
		err := l.reader.List(ctx, &corev1.ConfigMapList{}, &client.ListOptions{Raw: &version})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("list during which the context ends: %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// If the replica rejects the watch-list, a new informer lists with resourceVersion "0" and receives the old state. Its watch receives the new state
// when the replica has caught up. If the replica accepts the watch-list, it waits for the current state.
func TestReplica_InformersStartWithTheOldState(t *testing.T) {
	for name, test := range map[string]struct {
		refuses bool
		want    []string
	}{
		"the replica rejects the watch-list": {true, []string{"old", "new"}},
		"the replica accepts the watch-list": {false, []string{"new"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLagging(t)
				if test.refuses {
					l.replica.RefuseWatchLists()
				}
				time.AfterFunc(10*time.Second, l.replica.CatchUp)
				informers, err := ctrlcache.New(replicaConfig(l.replica), ctrlcache.Options{Scheme: clientgoscheme.Scheme})
				must(t, err)
				var seen []string
				informer, err := informers.GetInformer(t.Context(), &corev1.ConfigMap{}, ctrlcache.BlockUntilSynced(false))
				must(t, err)
				note := func(obj any) { seen = append(seen, obj.(*corev1.ConfigMap).Data["state"]) }
				_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) }})
				must(t, err)
				go func() { _ = informers.Start(t.Context()) }()
				<-time.After(time.Minute)
				synctest.Wait()
				if !slices.Equal(seen, test.want) {
					t.Errorf("the informer has received %v, want %v", seen, test.want)
				}
			})
		})
	}
}

// A replica that follows the store up to a version delivers the events up to that version.
func TestReplica_FollowsUpToAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLagging(t)
		stream, err := l.reader.Watch(t.Context(), &corev1.ConfigMapList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
		must(t, err)
		defer stream.Stop()
		var seen []string
		go func() {
			for e := range stream.ResultChan() {
				if obj, ok := e.Object.(*corev1.ConfigMap); ok { // the watch ends with a Status
					seen = append(seen, string(e.Type)+" "+obj.Data["state"])
				}
			}
		}()
		obj := configMap("one")
		obj.Data = map[string]string{"state": "newest"}
		must(t, l.users.Update(t.Context(), obj))
		synctest.Wait()
		if len(seen) != 1 || seen[0] != "ADDED old" {
			t.Errorf("before LagAt: events %q, want ADDED old", seen)
		}
		l.replica.LagAt(l.now)
		synctest.Wait()
		if len(seen) != 2 || seen[1] != "MODIFIED new" {
			t.Errorf("after LagAt: events %q, want MODIFIED new as the second one", seen)
		}
		l.replica.CatchUp()
		synctest.Wait()
		if len(seen) != 3 || seen[2] != "MODIFIED newest" {
			t.Errorf("after CatchUp: events %q, want MODIFIED newest as the third one", seen)
		}
	})
}
