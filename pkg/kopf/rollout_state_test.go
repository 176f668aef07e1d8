package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// An unreadable value of another kind doesn't stop the rollout of this one, nor what users ask for.
func TestRollout_UnreadableStateOfAnotherKind(t *testing.T) {
	rolloutTest(t, 3, rollout.Options{}, func(f *fleet) {
		f.Create(t, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: rollout.DefaultName}, Data: map[string]string{"databases.example.com": "garbage"},
		})
		f.upgrade(1)
		<-time.After(10 * time.Minute)
		f.expect(3, 3)
	})
}

// After a rollback, the state is no longer that of the newer revisions.
func TestRollout_RolledBack(t *testing.T) {
	rolloutTest(t, 20, rollout.Options{MaxParallel: 1}, func(f *fleet) {
		f.upgrade(1)
		<-time.After(10 * time.Minute)
		f.work = func(context.Context, string) error { return kopf.Permanent(errors.New("invalid")) }
		f.upgrade(2)
		<-time.After(10 * time.Minute)
		if f.state().Halted == nil {
			t.Fatalf("state = %+v, want a halt", f.state())
		}
		f.upgrade(1)
		<-time.After(10 * time.Minute)
		if state := f.state(); state.Revisions != "apply 1" || state.Halted != nil {
			t.Errorf("after the rollback, the state is %+v", state)
		}
		if err := rollout.Resume(t.Context(), f.Client, fleetState, "configmaps"); err == nil {
			<-time.After(10 * time.Minute)
			if state := f.state(); state.Resume {
				t.Errorf("nobody has answered the request to resume: %+v", state)
			}
		}
	})
}

// The numbers of a shard that is gone go away.
func TestRollout_GoneShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardCluster(t, "configmaps")
		slow := func(ctx context.Context, req *kopf.Request[configMap]) error {
			if req.Reason == kopf.ReasonRevision {
				return sleep(ctx, time.Minute)
			}
			return nil
		}
		run := func(shard string, options ...kopf.HandlerOption) (stop func() error) {
			operator := []kopf.Option{kopf.WithSharding(sharding.ControllerRing("maps", sharding.ShardName(shard), sharding.LeaseNamespace("default")))}
			if len(options) > 0 {
				operator = append(operator, kopf.WithRollout(rollout.Options{MaxParallel: 1, Namespace: "default"}))
			}
			return runShard(t, c, append(operator, kopf.For(&corev1.ConfigMap{}).OnCreateOrUpdate("apply", slow, options...))...)
		}
		for i := range 10 {
			c.Create(t, assigned(fmt.Sprint("o", i), "pod-a"))
		}
		stop := run("pod-a")
		<-time.After(time.Minute)
		must(t, stop())
		stop = run("pod-a", kopf.Revision(1))
		<-time.After(5 * time.Minute)
		must(t, stop())
		for i := range 10 { // a rolling update replaces the pod
			label(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("o", i)}}, shardLabel, "pod-b")
		}
		stop = run("pod-b", kopf.Revision(1))
		<-time.After(2 * time.Hour)
		states, err := rollout.Load(t.Context(), c.Client, fleetState)
		must(t, err)
		if all := states["configmaps"].Progress; len(all) != 1 || all["pod-b"].Waiting != 0 {
			t.Errorf("progress = %+v, want only that of pod-b", all)
		}
		must(t, stop())
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
