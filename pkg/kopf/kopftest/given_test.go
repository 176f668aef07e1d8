package kopftest

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listener is a testing.TB that records failures and continues.
type listener struct {
	testing.TB
	said   string
	logged string
}

func (l *listener) Logf(format string, args ...any) { l.logged += fmt.Sprintf(format, args...) }

func (l *listener) Fatalf(format string, args ...any) { l.said = fmt.Sprintf(format, args...) }

// Without Now, the engine would delay the handlers of newer objects, and a test without handler calls could pass.
func TestGiven_RejectsObjectsNewerThanTheClock(t *testing.T) {
	later := time.Now().AddDate(1, 0, 0)
	record := `{"started":"` + later.UTC().Format("2006-01-02T15:04:05.000000-07:00") + `","purpose":"create"}`
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		says string
	}{
		"an object newer than the clock": {metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(later)}, "set Given.Now"},
		"a record newer than the clock":  {metav1.ObjectMeta{Annotations: map[string]string{"kopf.zalando.org/paint": record}}, "set Given.Now"},
		"an object as old as the clock":  {metav1.ObjectMeta{CreationTimestamp: metav1.Now()}, ""},
		"an invalid time":                {metav1.ObjectMeta{Annotations: map[string]string{"note": `{"started":"soon"}`}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := &listener{TB: t}
			Given{Objects: []client.Object{&corev1.Pod{ObjectMeta: test.meta}}}.check(l)
			if test.says == "" {
				NewWithT(t).Expect(l.said).To(BeEmpty())
			} else {
				NewWithT(t).Expect(l.said).To(ContainSubstring(test.says))
			}
		})
	}
}
