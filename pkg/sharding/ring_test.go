package sharding_test

import (
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

func TestLabels(t *testing.T) {
	for got, want := range map[string]string{
		sharding.LeaseLabel:              "alpha.sharding.timebertt.dev/controllerring",
		sharding.ShardLabel("databases"): "shard.alpha.sharding.timebertt.dev/databases",
		sharding.DrainLabel("databases"): "drain.alpha.sharding.timebertt.dev/databases",
	} {
		if got != want {
			t.Errorf("label = %q, want %q", got, want)
		}
	}
	for key, want := range map[string]bool{
		sharding.ShardLabel("a"): true, sharding.DrainLabel("a"): true, sharding.LeaseLabel: false, "shard.example.com/a": false, "app": false,
	} {
		if got := sharding.IsRingLabel(key); got != want {
			t.Errorf("IsRingLabel(%q) = %t, want %t", key, got, want)
		}
	}
}

func TestControllerRing_Check(t *testing.T) {
	for name, c := range map[string]struct {
		ring sharding.Ring
		err  string
	}{
		"valid":           {sharding.ControllerRing("databases", sharding.ShardName("a"), sharding.LeaseNamespace("ns")), ""},
		"no constructor":  {sharding.Ring{}, "create it with ControllerRing or ServerSide"},
		"empty":           {sharding.ControllerRing(""), `ControllerRing("")`},
		"too long":        {sharding.ControllerRing(strings.Repeat("a", 64)), "no more than 63"},
		"upper case":      {sharding.ControllerRing("Databases"), "lower case"},
		"nil option":      {sharding.ControllerRing("databases", nil), "an option is nil"},
		"empty shard":     {sharding.ControllerRing("databases", sharding.ShardName("")), "ShardName is empty"},
		"empty namespace": {sharding.ControllerRing("databases", sharding.LeaseNamespace("")), "LeaseNamespace is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.ring.Check()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("Check() = %v, want %q", err, c.err)
			}
		})
	}
}

func TestRing_ShardAndNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		podName, podNamespace string
		options               []sharding.Option
		shard, namespace      string
		shardErr, nsErr       string
	}{
		"from the pod":        {podName: "db-1", podNamespace: "databases", shard: "db-1", namespace: "databases"},
		"options come first":  {podName: "db-1", podNamespace: "databases", options: []sharding.Option{sharding.ShardName("a"), sharding.LeaseNamespace("b")}, shard: "a", namespace: "b"},
		"a name with a space": {podName: "db 1", podNamespace: "databases", namespace: "databases", shardErr: "the environment variable POD_NAME"},
		"a name that is too long for a label": {
			podName: strings.Repeat("a", 64), podNamespace: "databases", namespace: "databases", shardErr: "use sharding.ShardName",
		},
		"outside of a cluster": {podName: "db-1", shard: "db-1", nsErr: "use sharding.LeaseNamespace"},
		"an invalid namespace": {podName: "db-1", podNamespace: "A", shard: "db-1", nsErr: "not a valid namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_NAME", c.podName)
			t.Setenv("POD_NAMESPACE", c.podNamespace)
			ring := sharding.ControllerRing("databases", c.options...)
			shard, err := ring.Shard()
			expect(t, "Shard", shard, err, c.shard, c.shardErr)
			namespace, err := ring.Namespace()
			expect(t, "Namespace", namespace, err, c.namespace, c.nsErr)
		})
	}
}

func expect(t *testing.T, what, got string, err error, want, wantErr string) {
	t.Helper()
	if got != want || wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
		t.Errorf("%s() = %q, %v, want %q and the error %q", what, got, err, want, wantErr)
	}
}
