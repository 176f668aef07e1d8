package ring_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/ring"
)

var identity = ring.Identity{Namespace: "ns", Name: "pod-1", RingLabel: "ring", Ring: "databases", Instance: "own"}

// lease returns a Lease of the ring with a holder, the id of its process, and its renew time in seconds.
func lease(holder, instance string, renewed int64) *coordinationv1.Lease {
	at := metav1.NewMicroTime(time.Unix(renewed, 0))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-1", Labels: map[string]string{"ring": "databases"}}}
	if instance != "" {
		l.Annotations = map[string]string{ring.InstanceAnnotation: instance}
	}
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &at}
	return l
}

func TestDecide(t *testing.T) {
	foreign := lease("pod-1", "", 1)
	foreign.Labels = nil
	noDuration := lease("pod-1", "other", 1)
	noDuration.Spec.LeaseDurationSeconds = nil
	for name, c := range map[string]struct {
		lease, first *coordinationv1.Lease
		unchanged    time.Duration
		want         ring.Decision
		err          string
	}{
		"no Lease":                               {want: ring.Create},
		"released":                               {lease: lease("", "other", 1), want: ring.Take},
		"our own, after a lost response":         {lease: lease("pod-1", "own", 1), want: ring.Take},
		"an earlier process":                     {lease: lease("pod-1", "other", 1), want: ring.Wait},
		"an earlier process, renewed long ago":   {lease: lease("pod-1", "other", 1), unchanged: 14 * time.Second, want: ring.Wait},
		"an earlier process, renewed tomorrow":   {lease: lease("pod-1", "other", 1<<40), unchanged: 15 * time.Second, want: ring.Take},
		"an earlier process, expired":            {lease: lease("pod-1", "other", 1), unchanged: 15 * time.Second, want: ring.Take},
		"an earlier process without a duration":  {lease: noDuration, unchanged: 15 * time.Second, want: ring.Take},
		"a process of another library":           {lease: lease("pod-1", "", 1), unchanged: 15 * time.Second, want: ring.Take},
		"the sharder":                            {lease: lease(ring.SharderIdentity, "other", 1), unchanged: 14 * time.Second, want: ring.Wait},
		"the sharder, expired":                   {lease: lease(ring.SharderIdentity, "other", 1), unchanged: 15 * time.Second, want: ring.Take},
		"a live process with the same name":      {lease: lease("pod-1", "other", 2), first: lease("pod-1", "other", 1), err: "another process renews the Lease ns/pod-1"},
		"a live process, seen after a long time": {lease: lease("pod-1", "other", 2), first: lease("pod-1", "other", 1), unchanged: time.Hour, err: "two processes are the shard"},
		"a Lease for another purpose":            {lease: foreign, err: `has the label ring="" instead of "databases"`},
		"another holder":                         {lease: lease("someone", "", 1), unchanged: time.Hour, err: `is held by "someone"`},
	} {
		t.Run(name, func(t *testing.T) {
			first := c.first
			if first == nil {
				first = c.lease
			}
			got, err := identity.Decide(c.lease, first, c.unchanged)
			if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("Decide() = %v, %v, want %v, error %q", got, err, c.want, c.err)
			}
		})
	}
}

// The sharder changes labels of the Lease, which is no renewal.
func TestDecide_LabelsAreNoRenewal(t *testing.T) {
	first, now := lease("pod-1", "other", 1), lease("pod-1", "other", 1)
	now.Labels["state"], now.ResourceVersion = "expired", "7"
	if got, err := identity.Decide(now, first, 15*time.Second); err != nil || got != ring.Take {
		t.Errorf("Decide() = %v, %v, want Take", got, err)
	}
}
