package clusterevents_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

func TestCheck_ReturnsAllMistakes(t *testing.T) {
	err := clusterevents.Selector{
		About: []client.Object{(*corev1.Pod)(nil)}, Through: []client.Object{nil}, Reasons: []string{""}, Since: -1, Interval: 5,
	}.Check()
	for _, want := range []string{"About has a nil object", "Through has a nil object", "one of the Reasons is empty", "Since must not be negative", "Interval is 5ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if err := (clusterevents.Selector{About: []client.Object{&corev1.Pod{}}, Since: time.Minute}).Check(); err != nil {
		t.Error(err)
	}
}
