package kopf_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// atNight holds updates from 22 to 6 o'clock.
var atNight = engine.CauseHold{Reason: "Night", Check: func(_ client.Object, reason cause.Reason) engine.Hold {
	now := time.Now().UTC()
	if hour := now.Hour(); reason != cause.Update || hour >= 6 && hour < 22 {
		return engine.Hold{}
	}
	morning := now.Truncate(24 * time.Hour).Add(6 * time.Hour)
	if morning.Before(now) {
		morning = morning.Add(24 * time.Hour)
	}
	return engine.Hold{Message: "updates wait until the morning", Until: morning}
}}

// A held cycle continues where it was: finished handlers are not called again, and an edit that undoes the update is handled by all that have seen it.
func TestCauseHold_OfAnUpdateThatHasBegun(t *testing.T) {
	for _, test := range []struct {
		revert bool
		want   []string
	}{
		{false, []string{"second 0->1"}},
		{true, []string{"first 1->0", "second 1->0"}},
	} {
		synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
			var seen steps
			note := func(name string, req *kopf.Request[configMap]) {
				seen.add(name + " " + req.Old.Data["size"] + "->" + req.Object.Data["size"])
			}
			obj := newConfigMap("a")
			obj.Data = map[string]string{"size": "0"}
			cluster := kopftest.Memory(t)
			operator := cluster.Run(t, kopf.WithCauseHold(atNight), kopf.For(&corev1.ConfigMap{}).
				OnUpdate("first", func(_ context.Context, req *kopf.Request[configMap]) error { note("first", req); return nil }).
				OnUpdate("second", func(_ context.Context, req *kopf.Request[configMap]) error {
					note("second", req)
					if req.Attempt.Number == 0 {
						return kopf.Temporary(errors.New("busy"), time.Hour)
					}
					return nil
				}))
			cluster.Create(t, obj)
			operator.RunUntilQuiet(t)
			<-time.After(21*time.Hour + 45*time.Minute)
			setData(t, cluster, obj, "1")
			<-time.After(105 * time.Minute)
			seen.expect(t, "the evening", "first 0->1", "second 0->1")
			if test.revert {
				setData(t, cluster, obj, "0")
			}
			<-time.After(6 * time.Hour)
			seen.expect(t, "before the morning")
			<-time.After(8 * time.Hour)
			if got := slices.Compact(seen.take()); !slices.Equal(got, test.want) {
				t.Errorf("after the night, with a reversal: %t: calls %q, want %q", test.revert, got, test.want)
			}
		})
	}
}

// An update that has not begun is handled once at the end of the hold, without another event. An update without a handler is not held.
func TestCauseHold_OfAnUpdateThatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		midnight := time.Now()
		obj := newConfigMap("a")
		obj.Data = map[string]string{"size": "0"}
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, kopf.WithCauseHold(atNight), kopf.For(&corev1.ConfigMap{}).
			OnUpdate("resize", func(_ context.Context, req *kopf.Request[configMap]) error {
				seen.add("resize " + req.Old.Data["size"] + "->" + req.Object.Data["size"])
				return nil
			}, kopf.Field("data.size")))
		cluster.Create(t, obj)
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, obj, func(obj configMap) { obj.Data["color"] = "red" })
		operator.RunUntilQuiet(t)
		if passed := time.Since(midnight); passed > time.Hour {
			t.Errorf("an update without a handler was held for %s", passed)
		}
		setData(t, cluster, obj, "1")
		<-time.After(time.Minute)
		setData(t, cluster, obj, "2")
		<-time.After(time.Minute)
		seen.expect(t, "the night")
		operator.RunUntilQuiet(t)
		seen.expect(t, "the morning", "resize 0->2")
		if passed := time.Since(midnight); passed < 6*time.Hour || passed > 7*time.Hour {
			t.Errorf("the update was handled after %s, want 6 hours", passed)
		}
	})
}
