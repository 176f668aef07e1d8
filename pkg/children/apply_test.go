package children_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

func object(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// newChildren returns new children for each call. The typed and unstructured children have fields that the server
// defaults or normalizes.
func newChildren() []client.Object {
	labels := map[string]string{"run": "db"}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: object("typed"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "main", Image: "main:1",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("0.5")}},
					Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
				}, {Name: "side", Image: "side:1", Args: []string{"b", "a"}}},
				Tolerations: []corev1.Toleration{{Key: "x", Operator: "Exists"}},
			}},
		}},
		newUnstructured("apps/v1", "Deployment", map[string]any{
			"metadata": map[string]any{"name": "loose"},
			"spec": map[string]any{
				"selector": map[string]any{"matchLabels": map[string]any{"run": "db"}},
				"template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"run": "db"}},
					"spec": map[string]any{"containers": []any{map[string]any{
						"name": "main", "image": "main:1",
						"resources": map[string]any{"requests": map[string]any{"cpu": "1000m", "memory": int64(1 << 30)}},
					}}, "volumes": []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}}, "nodeSelector": nil},
				},
			},
		}),
		&corev1.Service{ObjectMeta: object("service"), Spec: corev1.ServiceSpec{
			Selector: labels, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 443}},
		}},
		nil,
		&corev1.Secret{ObjectMeta: object("secret"), StringData: map[string]string{"password": "x"}, Data: map[string][]byte{"user": []byte("y")}},
		&networkingv1.NetworkPolicy{ObjectMeta: object("policy"), Spec: networkingv1.NetworkPolicySpec{
			Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{}}}}, // an atomic list with defaults
		}},
		newUnstructured("v1", "ServiceAccount", map[string]any{
			"metadata": map[string]any{"name": "account", "finalizers": []any{"example.com/b", "example.com/a"}},
		}),
	}
}

func operator(owner client.Object, opts ...children.Option) *children.Owner {
	return children.Of(owner, k8s, append([]children.Option{children.FieldOwner("db operator")}, opts...)...)
}

func operations(results []children.Result) (out []string) {
	for _, result := range results {
		out = append(out, string(result.Operation))
	}
	return out
}

// The second Apply of equal children writes nothing, for all kinds.
func TestApply_SecondApplyWritesNothing(t *testing.T) {
	owner := realOwner(t)
	var results []children.Result
	apply := func() {
		t.Helper()
		var err error
		results, err = operator(owner).Apply(t.Context(), newChildren()...)
		must(t, err)
	}
	equal(t, "writes of the first Apply, including as many dry runs", countWrites(apply), 6+6)
	equal(t, "operations", operations(results), []string{"created", "created", "created", "unchanged", "created", "created", "created"})
	for i, result := range results {
		if (result.Object == nil) != (i == 3) || i != 3 && result.Object.GetUID() == "" {
			t.Errorf("object of result %d = %v, want an object except for result 3", i, result.Object)
		}
	}
	if _, ok := results[0].Object.(*appsv1.Deployment); !ok {
		t.Errorf("type of the result = %T, want *Deployment", results[0].Object)
	}
	equal(t, "owner of the Secret", results[4].Object.GetOwnerReferences()[0].UID, owner.UID)
	equal(t, "password in the Secret", string(results[4].Object.(*corev1.Secret).Data["password"]), "x")
	for range 3 {
		equal(t, "writes of the next Apply", countWrites(apply), 0)
		equal(t, "operations", operations(results), []string{"unchanged", "unchanged", "unchanged", "unchanged", "unchanged", "unchanged", "unchanged"})
	}
	equal(t, "image in the next result", results[0].Object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image, "main:1")
}

// Apply keeps fields of other managers, resets changed fields and removes dropped fields, with one write each.
func TestApply_CorrectsDrift(t *testing.T) {
	owner := realOwner(t)
	intent := newChildren()[:1]
	deployment := intent[0].(*appsv1.Deployment)
	apply := func() (out *appsv1.Deployment, writes int) {
		t.Helper()
		writes = countWrites(func() {
			results, err := operator(owner).Apply(t.Context(), deployment.DeepCopy())
			must(t, err)
			out = results[0].Object.(*appsv1.Deployment)
		})
		return out, writes
	}
	live, _ := apply()
	other := func(change func()) {
		t.Helper()
		change()
		must(t, k8s.Update(t.Context(), live, client.FieldOwner("another-client")))
	}
	main := func() *corev1.Container { return &live.Spec.Template.Spec.Containers[0] }

	for _, c := range []struct {
		name    string
		theirs  func()
		ours    func()
		writes  int
		becomes func() bool
	}{
		{"fields added by another manager", func() {
			live.Labels["theirs"] = "x"
			live.Spec.Template.Spec.Containers = append(live.Spec.Template.Spec.Containers, corev1.Container{Name: "injected", Image: "i"})
		}, nil, 0, func() bool { return live.Labels["theirs"] == "x" && len(live.Spec.Template.Spec.Containers) == 3 }},
		{"a field changed by another manager", func() { main().Image = "other:2" }, nil, 1, func() bool { return main().Image == "main:1" }},
		{"a label changed by another manager", func() { live.Labels["app"] = "other" }, nil, 1, func() bool { return live.Labels["app"] == "db" }},
		{"a container removed by another manager", func() { live.Spec.Template.Spec.Containers = live.Spec.Template.Spec.Containers[:1] }, nil, 1,
			func() bool { return len(live.Spec.Template.Spec.Containers) == 2 }},
		{"an atomic list changed by another manager", func() { live.Spec.Template.Spec.Tolerations[0].Key = "z" }, nil, 1,
			func() bool { return live.Spec.Template.Spec.Tolerations[0].Key == "x" }},
		{"an owner reference changed by another manager", func() { live.OwnerReferences[0].BlockOwnerDeletion = nil }, nil, 1,
			func() bool { return *live.OwnerReferences[0].BlockOwnerDeletion }},
		{"a field of another manager", func() { live.Spec.Replicas = new(int32(5)) }, nil, 0, func() bool { return *live.Spec.Replicas == 5 }},
		{"a changed field", nil, func() { deployment.Spec.Template.Spec.Containers[1].Args = []string{"c"} }, 1,
			func() bool { return live.Spec.Template.Spec.Containers[1].Args[0] == "c" }},
		{"a dropped field", nil, func() { deployment.Spec.Template.Spec.Containers[1].Args = nil }, 1,
			func() bool { return live.Spec.Template.Spec.Containers[1].Args == nil }},
		{"a dropped field in an atomic list", nil, func() { deployment.Spec.Template.Spec.Tolerations[0].Operator = "" }, 1,
			func() bool { return live.Spec.Template.Spec.Tolerations[0].Operator != "Exists" }},
	} {
		if c.theirs != nil {
			other(c.theirs)
		} else {
			c.ours()
		}
		var writes int
		live, writes = apply()
		equal(t, c.name+": writes", writes, c.writes)
		if !c.becomes() {
			t.Errorf("%s: the live spec is not as the case wants it: %v", c.name, live.Spec)
		}
		live, writes = apply()
		equal(t, c.name+": writes of the next Apply", writes, 0)
	}
}

// Many operators strip managed fields from their caches. Apply then compares values.
func TestApply_WithoutManagedFields(t *testing.T) {
	owner := realOwner(t)
	blind := interceptor.NewClient(withWatch(t), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			obj.SetManagedFields(nil)
			return err
		},
	})
	apply := func() {
		t.Helper()
		_, err := operator(owner, children.ReadWith(blind)).Apply(t.Context(), newChildren()[4:6]...)
		must(t, err)
	}
	equal(t, "writes of the first Apply, including as many dry runs", countWrites(apply), 2+2)
	equal(t, "writes of the next Apply", countWrites(apply), 0)
	secret := &corev1.Secret{}
	must(t, k8s.Get(t.Context(), client.ObjectKey{Namespace: owner.Namespace, Name: "secret"}, secret))
	secret.Data["password"] = []byte("changed")
	must(t, k8s.Update(t.Context(), secret))
	equal(t, "writes for a changed child", countWrites(apply), 1)
	equal(t, "writes of the next Apply", countWrites(apply), 0)
}

// Two operators that share a child do not overwrite each other forever.
func TestApply_TwoFieldOwners(t *testing.T) {
	owner := realOwner(t)
	one := func(key string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: object("shared"), Data: map[string]string{key: "x"}}
	}
	apply := func(fieldOwner, key string) {
		t.Helper()
		_, err := operator(owner, children.FieldOwner(fieldOwner)).Apply(t.Context(), one(key))
		must(t, err)
	}
	apply("a", "a")
	apply("b", "b")
	equal(t, "writes", countWrites(func() { apply("a", "a"); apply("b", "b") }), 0)
	shared := one("")
	must(t, k8s.Get(t.Context(), client.ObjectKey{Namespace: owner.Namespace, Name: "shared"}, shared))
	equal(t, "the data", shared.Data, map[string]string{"a": "x", "b": "x"})
}

func TestCreate_ExistingChild(t *testing.T) {
	owner := realOwner(t)
	var results []children.Result
	create := func() {
		t.Helper()
		var err error
		results, err = operator(owner).Create(t.Context(), newChildren()...)
		must(t, err)
	}
	equal(t, "writes of the first Create", countWrites(create), 6)
	equal(t, "operations", operations(results), []string{"created", "created", "created", "unchanged", "created", "created", "created"})
	service := results[2].Object.(*corev1.Service)
	service.Spec.Ports[0].Port = 81
	must(t, k8s.Update(t.Context(), service))
	equal(t, "writes of the next Create", countWrites(create), 0)
	equal(t, "port of the existing child", results[2].Object.(*corev1.Service).Spec.Ports[0].Port, int32(81))
	equal(t, "kind of the result", results[1].Object.(*unstructured.Unstructured).GetKind(), "Deployment")
}

// The API server has the child, but the cache does not contain it yet.
func TestCreate_StaleCache(t *testing.T) {
	owner := realOwner(t)
	gets := 0
	behind := interceptor.NewClient(withWatch(t), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if gets++; gets == 1 {
				return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	child := &corev1.ConfigMap{ObjectMeta: object("child")}
	_, err := operator(owner).Create(t.Context(), child.DeepCopy())
	must(t, err)
	results, err := operator(owner, children.ReadWith(behind)).Create(t.Context(), child)
	must(t, err)
	equal(t, "operations", operations(results), []string{"unchanged"})
	if results[0].Object.GetUID() == "" {
		t.Error("the result has no UID, want the child on the server")
	}
	gets = -1000
	lost := interceptor.NewClient(withWatch(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewNotFound(corev1.Resource("configmaps"), "child")
		},
	})
	if _, err := operator(owner, children.ReadWith(lost)).Create(t.Context(), child); !apierrors.IsAlreadyExists(err) {
		t.Errorf("error for a permanently stale cache = %v, want AlreadyExists", err)
	}
}

// Apply does not take over objects that the cache does not contain.
func TestApply_ObjectMissingInCache(t *testing.T) {
	owner := realOwner(t)
	blind := interceptor.NewClient(withWatch(t), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
		},
	})
	users := &corev1.ConfigMap{ObjectMeta: object("users"), Data: map[string]string{"a": "theirs"}}
	users.Namespace = owner.Namespace
	must(t, k8s.Create(t.Context(), users))
	child := func(name string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: object(name), Data: map[string]string{"a": "ours"}}
	}
	for _, form := range []client.Object{child("users"), newUnstructured("v1", "ConfigMap", map[string]any{
		"metadata": map[string]any{"name": "users"}, "data": map[string]any{"a": "ours"},
	})} {
		_, err := children.Of(owner, blind, children.FieldOwner("db operator")).Apply(t.Context(), form)
		if err == nil || !strings.Contains(err.Error(), `users: the object exists and does not belong to "db"`) {
			t.Errorf("error for %T = %v, want an error about the existing object", form, err)
		}
	}
	before := users.ResourceVersion
	must(t, k8s.Get(t.Context(), client.ObjectKeyFromObject(users), users))
	equal(t, "data of the user's object", users.Data, map[string]string{"a": "theirs"})
	equal(t, "resource version of the user's object", users.ResourceVersion, before)

	var results []children.Result
	for _, want := range []string{"created", "unchanged"} {
		var err error
		results, err = children.Of(owner, blind, children.FieldOwner("db operator")).Apply(t.Context(), child("own"))
		must(t, err)
		equal(t, "operation for the own child", operations(results), []string{want})
	}
	own, version := &corev1.ConfigMap{}, results[0].Object.GetResourceVersion()
	must(t, k8s.Get(t.Context(), client.ObjectKey{Namespace: owner.Namespace, Name: "own"}, own))
	equal(t, "resource version", own.ResourceVersion, version)
}

// Apply returns an error for each object of another owner and applies all other children.
func TestApply_ObjectsOfOtherOwners(t *testing.T) {
	owner := realOwner(t)
	yes := true
	make := func(name string, refs ...metav1.OwnerReference) *corev1.ConfigMap {
		t.Helper()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.Namespace, OwnerReferences: refs}}
		must(t, k8s.Create(t.Context(), obj))
		return obj
	}
	make("nobodys")
	make("others", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "gone", Controller: &yes})
	dying := make("dying")
	dying.Finalizers = []string{"example.com/wait"}
	must(t, k8s.Update(t.Context(), dying))
	must(t, k8s.Delete(t.Context(), dying))
	child := func(name string) client.Object { return &corev1.ConfigMap{ObjectMeta: object(name)} }

	for name, do := range map[string]func(context.Context, ...client.Object) ([]children.Result, error){
		"apply": operator(owner).Apply, "create": operator(owner).Create,
	} {
		var results []children.Result
		var err error
		equal(t, name+": writes", countWrites(func() {
			results, err = do(t.Context(), child("nobodys"), child("others"), child("dying"), child("fine-"+name))
		}), map[string]int{"apply": 1 + 1, "create": 1}[name])
		for _, want := range []string{
			`children: ConfigMap ` + owner.Namespace + `/nobodys: the object exists and does not belong to "db": delete it`,
			`already owned by another ConfigMap controller x`, `dying: the object is being deleted: retry after its deletion`,
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
		if _, ok := errors.AsType[*controllerutil.AlreadyOwnedError](err); !ok {
			t.Errorf("%s: errors.As did not find the other owner: %v", name, err)
		}
		equal(t, name, operations(results), []string{"unchanged", "unchanged", "unchanged", "created"})
		if results[0].Object != nil {
			t.Errorf("%s: result of a failure = %v, want nil", name, results[0].Object)
		}
	}
	results, err := operator(owner, children.TakeOver()).Apply(t.Context(), child("nobodys"))
	must(t, err)
	equal(t, "owner after TakeOver", results[0].Object.GetOwnerReferences()[0].UID, owner.UID)
	if _, err := operator(owner, children.TakeOver()).Apply(t.Context(), child("others")); err == nil {
		t.Error("TakeOver returned no error for another controller's child")
	}
	results, err = operator(owner, children.TakeOver(), children.Controller(false)).Apply(t.Context(), child("others"))
	must(t, err)
	equal(t, "number of owners after TakeOver without Controller", len(results[0].Object.GetOwnerReferences()), 2)
	equal(t, "writes of the next Apply", countWrites(func() {
		_, err := operator(owner, children.TakeOver(), children.Controller(false)).Apply(t.Context(), child("others"))
		must(t, err)
	}), 0)
}

func TestApply_Errors(t *testing.T) {
	owner := realOwner(t)
	fine := &corev1.ConfigMap{ObjectMeta: object("fine")}
	for want, do := range map[string]func() ([]children.Result, error){
		"has no name: use Name": func() ([]children.Result, error) {
			return operator(owner).Apply(t.Context(), fine, &corev1.ConfigMap{})
		},
		"occurs twice: use a unique name for each": func() ([]children.Result, error) {
			return operator(owner).Create(t.Context(), fine, newUnstructured("v1", "ConfigMap", map[string]any{"metadata": map[string]any{"name": "fine"}}))
		},
		"requires the option FieldOwner": func() ([]children.Result, error) {
			return children.Of(owner, k8s).Apply(t.Context(), fine)
		},
		"has no kind": func() ([]children.Result, error) { return operator(owner).Create(t.Context(), fine, &unregistered{}) },
		"ClusterRole role is cluster-scoped and cannot": func() ([]children.Result, error) {
			return operator(owner).Apply(t.Context(), fine, newUnstructured("rbac.authorization.k8s.io/v1", "ClusterRole", map[string]any{
				"metadata": map[string]any{"name": "role"},
			}))
		},
	} {
		var err error
		equal(t, want, countWrites(func() { _, err = do() }), 0)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	_, err := operator(owner).Apply(t.Context(), fine, newUnstructured("example.com/v1", "Thing", map[string]any{"metadata": map[string]any{"name": "x"}}))
	if err == nil || !strings.Contains(err.Error(), "children: Thing "+owner.Namespace+"/x: ") {
		t.Errorf("error for a kind that is not served = %v, want an error about the Thing", err)
	}
}

// The errors are found before the first child is adopted.
func TestApply_ErrorsLeaveChildrenUnchanged(t *testing.T) {
	operator := children.Of(owner(), kinds{}, children.FieldOwner("op"))
	apply := func(ctx context.Context, objects ...client.Object) error {
		_, err := operator.Apply(ctx, objects...)
		return err
	}
	create := func(ctx context.Context, objects ...client.Object) error {
		_, err := operator.Create(ctx, objects...)
		return err
	}
	applySet := func(ctx context.Context, objects ...client.Object) error {
		_, err := operator.Set("one", &corev1.ConfigMap{}).Apply(ctx, objects...)
		return err
	}
	unnamed := &corev1.ConfigMap{Data: map[string]string{"key": "value"}}
	twice := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fine", Namespace: "prod"}} // the first child gets this namespace
	for _, test := range []struct {
		name   string
		call   func(context.Context, ...client.Object) error
		second client.Object
		want   string
	}{
		{"Apply without a name", apply, unnamed, "ConfigMap prod/db-? has no name"},
		{"Apply twice", apply, twice, "ConfigMap prod/fine occurs twice"},
		{"Create without a name", create, unnamed, "ConfigMap prod/db-? has no name"},
		{"Create twice", create, twice, "ConfigMap prod/fine occurs twice"},
		{"Set without a name", applySet, unnamed, "ConfigMap prod/db-? has no name"},
		{"Set twice", applySet, twice, "ConfigMap prod/fine occurs twice"},
		{"Set with another kind", applySet, &corev1.Secret{ObjectMeta: object("s")}, "Secret prod/s is not of a kind of set \"one\": pass an empty *v1.Secret to Set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			first, second := &corev1.ConfigMap{ObjectMeta: object("fine")}, test.second.DeepCopyObject().(client.Object)
			if err := test.call(t.Context(), first, nil, second); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			equal(t, "first child after the error", first, &corev1.ConfigMap{ObjectMeta: object("fine")})
			equal(t, "second child after the error", second, test.second)
		})
	}
}

func withWatch(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{})
	must(t, err)
	return c
}
