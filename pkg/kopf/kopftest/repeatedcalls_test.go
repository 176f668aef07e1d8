package kopftest_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// After a conflict or throttling, the reconcile succeeds, but its write is pending.
func TestRunUntilQuiet_WaitsForRejectedWrites(t *testing.T) {
	for name, fault := range map[string]kopftest.Fault{
		"conflicts":     {Verb: "patch", Resource: "configmaps", Code: 409, Times: 40},
		"throttling":    {Verb: "patch", Resource: "configmaps", Code: 429, Times: 40},
		"server errors": {Verb: "patch", Resource: "configmaps", Code: 500, Times: 40},
		"lost answers":  {Verb: "patch", Resource: "configmaps", Lost: true, Times: 20},
	} {
		for kind, declare := range map[string]func(*kopf.Resource[*corev1.ConfigMap], kopf.Handler[*corev1.ConfigMap]){
			"cause handler": func(r *kopf.Resource[*corev1.ConfigMap], fn kopf.Handler[*corev1.ConfigMap]) {
				r.OnCreate("paint", fn).OnDelete("wash", nothing)
			},
			"reconcile handler": func(r *kopf.Resource[*corev1.ConfigMap], fn kopf.Handler[*corev1.ConfigMap]) {
				r.OnReconcile("paint", fn)
			},
		} {
			t.Run(name+" of a "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g, cluster := NewWithT(t), kopftest.Memory(t, kopftest.Objects(configMap(nil)))
					resource := kopf.For(&corev1.ConfigMap{})
					declare(resource, func(_ context.Context, req *cmRequest) error {
						req.Object.Data = map[string]string{"color": "red"}
						return nil
					})
					operator := cluster.Run(t, resource)
					operator.InjectFaults(fault)
					operator.RunUntilQuiet(t)
					stored := configMap(nil)
					cluster.Get(t, stored)
					g.Expect(stored.Data).To(HaveKeyWithValue("color", "red"))
				})
			})
		}
	}
}

// client-go derives the names of Events from the time, which does not advance in virtual time.
func TestEvents_EqualTimestamps(t *testing.T) {
	const posted = 5
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{configMap(nil)}},
		kopf.For(&corev1.ConfigMap{}).OnCreate("paint", func(_ context.Context, req *cmRequest) error {
			for n := range posted {
				req.Eventf(corev1.EventTypeNormal, fmt.Sprintf("Painted%d", n), "Paint", "coat %d", n)
			}
			return nil
		}))
	g := NewWithT(t)
	g.Expect(report.Events).To(HaveLen(posted))
	for n := range posted {
		g.Expect(report.Events).To(ContainElement(HaveField("Reason", fmt.Sprintf("Painted%d", n))))
	}
}

func TestEdit_ChangesSpecAndStatus(t *testing.T) {
	g, cluster := NewWithT(t), kopftest.Memory(t)
	pod := &corev1.Pod{}
	pod.Name = "one"
	cluster.Create(t, pod)
	kopftest.Edit(t, cluster, pod, func(pod *corev1.Pod) {
		pod.Labels, pod.Status.Phase = map[string]string{"edited": "yes"}, corev1.PodRunning
	})
	g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning), "want the stored status")
	stored := &corev1.Pod{}
	stored.Name = "one"
	cluster.Get(t, stored)
	g.Expect(stored.Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(maps.Collect(maps.All(stored.Labels))).To(HaveKeyWithValue("edited", "yes"))
	kopftest.Edit(t, cluster, pod, func(pod *corev1.Pod) { pod.Status.Phase = "" })
	cluster.Get(t, stored)
	g.Expect(stored.Status.Phase).To(BeEmpty())
}
