package loopguard_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

type m = map[string]any

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment")

// newClient returns a client of a simulated API server.
func newClient(t *testing.T, hasStatus bool) client.Client {
	t.Helper()
	server := apiserver.New(
		apiserver.Resource{GroupVersion: appsv1.SchemeGroupVersion, Kind: "Deployment", Plural: "deployments", HasStatus: hasStatus},
		apiserver.Resource{GroupVersion: corev1.SchemeGroupVersion, Kind: "ConfigMap", Plural: "configmaps"},
	)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(deployments, meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	config := &rest.Config{Host: "http://in-memory", Transport: server, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}, QPS: -1}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{MinReadySeconds: 1, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		}},
	}
}

func newRecorder(t *testing.T, c client.Client, obj client.Object, hasStatus bool) *loopguard.Recorder {
	t.Helper()
	content, err := patch.Content(obj)
	must(t, err)
	return &loopguard.Recorder{
		Client: c, GVK: deployments, HasStatus: hasStatus, Essence: essence.Builder{Fields: [][]string{{"status", "replicas"}}},
		Received: patch.Converted{Object: obj, Content: content},
	}
}

func mergePatch(doc string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(doc)) }

// applied returns an apply configuration with fields.
func applied(name string, fields m) runtime.ApplyConfiguration {
	config := &unstructured.Unstructured{Object: fields}
	config.SetGroupVersionKind(deployments)
	config.SetNamespace("default")
	config.SetName(name)
	return client.ApplyConfigurationFromUnstructured(config)
}

func TestRecorder(t *testing.T) {
	type object = *appsv1.Deployment
	spec := func(seconds int) patch.MergePatch { return patch.MergePatch{"spec": m{"minReadySeconds": seconds}} }
	replicas := patch.MergePatch{"status": m{"replicas": 2}}
	force := []client.ApplyOption{client.FieldOwner("test"), client.ForceOwnership}
	for _, test := range []struct {
		name   string
		handle func(ctx context.Context, c client.Client, obj object) error
		fields patch.MergePatch
		paths  []string
		writes int
	}{
		{"no write", func(ctx context.Context, c client.Client, obj object) error {
			return c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		}, nil, nil, 0},
		{"Update ignores the status", func(ctx context.Context, c client.Client, obj object) error {
			obj.Spec.MinReadySeconds, obj.Status.Replicas = 2, 2
			return c.Update(ctx, obj)
		}, spec(2), []string{"spec.minReadySeconds"}, 1},
		{"Update after Get has only the changes of the handler", func(ctx context.Context, c client.Client, obj object) error {
			// The client in the recorder is another client.
			if err := c.(*loopguard.Recorder).Client.Patch(ctx, newDeployment(obj.Name), mergePatch(`{"metadata": {"labels": {"other": "client"}}}`)); err != nil {
				return err
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			obj.Spec.MinReadySeconds = 2
			return c.Update(ctx, obj)
		}, spec(2), []string{"spec.minReadySeconds"}, 1},
		{"two updates", func(ctx context.Context, c client.Client, obj object) error {
			obj.Spec.MinReadySeconds = 2
			if err := c.Update(ctx, obj); err != nil {
				return err
			}
			obj.Labels, obj.Spec.MinReadySeconds = map[string]string{"a": "b"}, 3
			return c.Update(ctx, obj)
		}, patch.MergePatch{"spec": m{"minReadySeconds": 3}, "metadata": m{"labels": m{"a": "b"}}}, []string{"metadata.labels.a", "spec.minReadySeconds"}, 2},
		{"a failed update", func(ctx context.Context, c client.Client, obj object) error {
			obj.Spec.MinReadySeconds, obj.ResourceVersion = 2, "1000000"
			if err := c.Update(ctx, obj); !apierrors.IsConflict(err) {
				return err
			}
			return nil
		}, nil, nil, 0},
		{"Update of an unstructured object", func(ctx context.Context, c client.Client, obj object) error {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(deployments)
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), u); err != nil {
				return err
			}
			if err := unstructured.SetNestedField(u.Object, int64(2), "spec", "minReadySeconds"); err != nil {
				return err
			}
			return c.Update(ctx, u)
		}, spec(2), []string{"spec.minReadySeconds"}, 1},
		{"another object", func(ctx context.Context, c client.Client, _ object) error {
			return c.Patch(ctx, newDeployment("other"), mergePatch(`{"spec": {"minReadySeconds": 2}}`))
		}, nil, nil, 0},
		{"an object in another namespace", func(ctx context.Context, c client.Client, obj object) error {
			other := newDeployment(obj.Name)
			other.Namespace = "other"
			if err := c.Create(ctx, other); err != nil {
				return err
			}
			return c.Patch(ctx, other, mergePatch(`{"spec": {"minReadySeconds": 2}}`))
		}, nil, nil, 0},
		{"another kind", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}, mergePatch(`{"data": {"a": "b"}}`))
		}, nil, nil, 0},
		{"an unstructured object of another kind", func(ctx context.Context, c client.Client, obj object) error {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			u.SetNamespace(obj.Namespace)
			u.SetName(obj.Name)
			return c.Patch(ctx, u, mergePatch(`{"data": {"a": "b"}}`))
		}, nil, nil, 0},
		{"a merge patch", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, obj, mergePatch(`{"spec": {"minReadySeconds": 2, "paused": null}}`))
		}, spec(2), []string{"spec.minReadySeconds", "spec.paused"}, 1},
		{"a merge patch without a change", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, obj, mergePatch(`{"spec": {"minReadySeconds": 1}}`))
		}, nil, []string{"spec.minReadySeconds"}, 1},
		{"a merge patch outside of the essence", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, obj, mergePatch(`{"metadata": {"finalizers": ["example.com/x"]}}`))
		}, nil, []string{"metadata.finalizers"}, 1},
		{"a strategic merge patch", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, obj, client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"minReadySeconds": 2}}`)))
		}, spec(2), []string{"spec.minReadySeconds"}, 1},
		{"a JSON patch", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, []byte(`[
				{"op": "test", "path": "/spec/paused", "value": null},
				{"op": "replace", "path": "/spec/minReadySeconds", "value": 2},
				{"op": "add", "path": "/metadata/annotations", "value": {}},
				{"op": "add", "path": "/metadata/annotations/example.com~1a", "value": "b"}
			]`)))
		}, patch.MergePatch{"spec": m{"minReadySeconds": 2}, "metadata": m{"annotations": m{"example.com/a": "b"}}},
			[]string{"metadata.annotations.example.com/a", "spec.minReadySeconds"}, 1},
		{"a JSON patch that moves a field", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, []byte(`[{"op": "move", "from": "/spec/minReadySeconds", "path": "/spec/progressDeadlineSeconds"}]`)))
		}, patch.MergePatch{"spec": m{"minReadySeconds": nil, "progressDeadlineSeconds": 1}}, []string{"spec.minReadySeconds", "spec.progressDeadlineSeconds"}, 1},
		{"a JSON patch of an item of a list", func(ctx context.Context, c client.Client, obj object) error {
			return c.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, []byte(`[{"op": "remove", "path": "/spec/template/spec/containers/0/image"}]`)))
		}, patch.MergePatch{"spec": m{"template": m{"spec": m{"containers": []any{m{"name": "app", "resources": m{}}}}}}}, []string{"spec.template.spec.containers"}, 1},
		{"Apply", func(ctx context.Context, c client.Client, obj object) error {
			return c.Apply(ctx, applied(obj.Name, m{"spec": m{"minReadySeconds": int64(2)}}), force...)
		}, spec(2), []string{"spec.minReadySeconds"}, 1},
		{"Apply of another object", func(ctx context.Context, c client.Client, _ object) error {
			return c.Apply(ctx, applied("other", m{"spec": m{"minReadySeconds": int64(2)}}), force...)
		}, nil, nil, 0},
		{"Update of the status ignores other fields", func(ctx context.Context, c client.Client, obj object) error {
			obj.Spec.MinReadySeconds, obj.Status.Replicas = 2, 2
			return c.Status().Update(ctx, obj)
		}, replicas, []string{"status.replicas"}, 1},
		{"a patch of the status", func(ctx context.Context, c client.Client, obj object) error {
			return c.SubResource("status").Patch(ctx, obj, mergePatch(`{"status": {"replicas": 2}}`))
		}, replicas, []string{"status.replicas"}, 1},
		{"Apply of the status", func(ctx context.Context, c client.Client, obj object) error {
			return c.Status().Apply(ctx, applied(obj.Name, m{"status": m{"replicas": int64(2)}}), client.FieldOwner("test"), client.ForceOwnership)
		}, replicas, []string{"status.replicas"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, c, obj := t.Context(), newClient(t, true), newDeployment("one")
			for _, created := range []client.Object{obj, newDeployment("other"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}} {
				must(t, c.Create(ctx, created))
			}
			recorder := newRecorder(t, c, obj, true)
			must(t, test.handle(ctx, recorder, obj.DeepCopy()))
			must(t, c.Get(ctx, client.ObjectKeyFromObject(obj), obj))
			write := recorder.Written()
			if difference := cmp.Diff(test.paths, write.Paths, cmpopts.EquateEmpty()); difference != "" {
				t.Errorf("paths (-want +got):\n%s", difference)
			}
			if got, want := text(t, write.Fields), text(t, test.fields); got != want && len(test.fields)+len(write.Fields) > 0 {
				t.Errorf("fields %s, want %s", got, want)
			}
			if n := len(write.Versions); n != test.writes || n > 0 && write.Versions[n-1] != obj.ResourceVersion {
				t.Errorf("versions %v, want %d with %q as the last one", write.Versions, test.writes, obj.ResourceVersion)
			}
		})
	}
}

// text returns a value as JSON, with sorted keys.
func text(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	must(t, err)
	return string(data)
}

// Without the status subresource, the API server updates the status together with the other fields.
func TestRecorder_WithoutStatusSubresource(t *testing.T) {
	ctx, c, obj := t.Context(), newClient(t, false), newDeployment("one")
	must(t, c.Create(ctx, obj))
	recorder, changed := newRecorder(t, c, obj, false), obj.DeepCopy()
	changed.Spec.MinReadySeconds, changed.Status.Replicas = 2, 2
	must(t, recorder.Update(ctx, changed))
	if got, want := text(t, recorder.Written().Fields), `{"spec":{"minReadySeconds":2},"status":{"replicas":2}}`; got != want {
		t.Errorf("fields %s, want %s", got, want)
	}
}
