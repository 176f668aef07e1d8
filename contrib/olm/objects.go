package olm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	sigsyaml "sigs.k8s.io/yaml"
)

// ReadObjects returns the objects in a stream of YAML documents, for example the output of kustomize or of kopf.WriteRights. It skips empty documents.
func ReadObjects(r io.Reader) ([]client.Object, error) {
	var objects []client.Object
	reader := yaml.NewYAMLReader(bufio.NewReader(r))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{}
		if err := sigsyaml.UnmarshalStrict(document, &obj.Object); err != nil {
			return nil, fmt.Errorf("document %d is not a Kubernetes object in YAML: %w", number, err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if obj.GetAPIVersion() == "" || obj.GetKind() == "" {
			return nil, fmt.Errorf("document %d has no apiVersion or kind: set both\n%s", number, bytes.TrimSpace(document))
		}
		objects = append(objects, obj)
	}
}

var (
	csvKind = operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind)
	crdKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
)

// supported contains the kinds of objects in manifests that both versions of OLM install, with their groups. The kinds are copied from
// operator-registry v1.73.
var supported = sets.New(
	"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io", "ConfigMap", "ConsoleCLIDownload.console.openshift.io",
	"ConsoleLink.console.openshift.io", "ConsolePlugin.console.openshift.io", "ConsoleQuickStart.console.openshift.io",
	"ConsoleYAMLSample.console.openshift.io", "NetworkPolicy.networking.k8s.io", "PodDisruptionBudget.policy", "PodMonitor.monitoring.coreos.com",
	"PriorityClass.scheduling.k8s.io", "PrometheusRule.monitoring.coreos.com", "Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
	"Secret", "Service", "ServiceAccount", "ServiceMonitor.monitoring.coreos.com", "VerticalPodAutoscaler.autoscaling.k8s.io",
)

// isSupported reports whether both versions of OLM install an object.
func isSupported(u *unstructured.Unstructured) bool { return supported.Has(kindOf(u)) }

// kindOf returns the kind of an object with its group, such as "Role.rbac.authorization.k8s.io".
func kindOf(u *unstructured.Unstructured) string { return u.GroupVersionKind().GroupKind().String() }

// sources are the objects of [Options] by kind.
type sources struct {
	base         *operatorsv1alpha1.ClusterServiceVersion
	deployments  []*appsv1.Deployment
	crds         []*apiextensionsv1.CustomResourceDefinition
	clusterRoles []*rbacv1.ClusterRole
	roles        []*rbacv1.Role
	bindings     []binding
	services     []*corev1.Service
	webhooks     []*admissionregistrationv1.MutatingWebhookConfiguration // configurations of both kinds; validating webhooks have a subset of the fields
	samples      []*unstructured.Unstructured
	others       []*unstructured.Unstructured // other objects, including all roles, bindings and Services
}

// A binding is a RoleBinding, or a ClusterRoleBinding if it has no namespace.
type binding struct {
	kind, namespace, name string
	role                  rbacv1.RoleRef
	subjects              []rbacv1.Subject
}

var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types of the three packages do not overlap
		}
	}
	return scheme
}()

// sortObjects distributes the objects to the fields of sources.
func sortObjects(objects []client.Object) (*sources, error) {
	var s sources
	var errs []error
	var all []*unstructured.Unstructured
	for i, obj := range objects {
		if v := reflect.ValueOf(obj); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			errs = append(errs, fmt.Errorf("object %d of Objects is nil: remove it", i+1))
			continue
		}
		u, err := toUnstructured(obj)
		if err != nil {
			errs = append(errs, fmt.Errorf("object %d of Objects: %w", i+1, err))
			continue
		}
		if err := checkName(u.GetName()); err != nil {
			errs = append(errs, fmt.Errorf("object %d of Objects, a %s: %w", i+1, kindOf(u), err))
			continue
		}
		if slices.ContainsFunc(all, func(other *unstructured.Unstructured) bool { return nameOf(u) == nameOf(other) }) {
			errs = append(errs, fmt.Errorf("%s is twice in Objects: remove one of them", nameOf(u)))
			continue
		}
		all = append(all, u)
		if err := s.add(u); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", nameOf(u), err))
		}
	}
	s.findSamples()
	return &s, errors.Join(errs...)
}

func (s *sources) add(u *unstructured.Unstructured) (err error) {
	switch u.GroupVersionKind() {
	case csvKind:
		if s.base != nil {
			return fmt.Errorf("the ClusterServiceVersion %s is also in Objects: remove one of them", s.base.Name)
		}
		s.base, err = convert[operatorsv1alpha1.ClusterServiceVersion](u)
		return err
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		return appendAs(&s.deployments, u)
	case crdKind:
		return appendAs(&s.crds, u)
	case corev1.SchemeGroupVersion.WithKind("Namespace"):
		return nil
	case rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):
		err = appendAs(&s.clusterRoles, u)
	case rbacv1.SchemeGroupVersion.WithKind("Role"):
		err = appendAs(&s.roles, u)
	case rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):
		var b *rbacv1.RoleBinding // the two kinds have the same fields
		if b, err = convert[rbacv1.RoleBinding](u); err == nil {
			s.bindings = append(s.bindings, binding{u.GetKind(), b.Namespace, b.Name, b.RoleRef, b.Subjects})
		}
	case admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"):
		return appendAs(&s.webhooks, u)
	case corev1.SchemeGroupVersion.WithKind("Service"):
		err = appendAs(&s.services, u)
	}
	s.others = append(s.others, u)
	return err
}

// findSamples moves the objects of kinds that the bundle owns to the samples.
func (s *sources) findSamples() {
	s.others = slices.DeleteFunc(s.others, func(u *unstructured.Unstructured) bool {
		isSample := slices.ContainsFunc(s.crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
			return schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind} == u.GroupVersionKind().GroupKind()
		})
		if isSample {
			s.samples = append(s.samples, u)
		}
		return isSample
	})
}

func toUnstructured(obj client.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		if gvk = obj.GetObjectKind().GroupVersionKind(); gvk.Kind == "" {
			return nil, fmt.Errorf("%T has no apiVersion and kind: set both", obj)
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

func convert[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, out, true)
}

func appendAs[T any](list *[]*T, u *unstructured.Unstructured) error {
	obj, err := convert[T](u)
	*list = append(*list, obj)
	return err
}

// nameOf returns the kind, the namespace and the name of an object.
func nameOf(u *unstructured.Unstructured) string {
	return qualified(kindOf(u), u.GetNamespace(), u.GetName())
}

func qualified(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// checkName checks the rules for names that apply to objects of all kinds.
func checkName(name string) error {
	if name == "" {
		return errors.New("the object has no name: set metadata.name")
	}
	if found := content.IsPathSegmentName(name); len(found) > 0 {
		return fmt.Errorf("the name %q is invalid: rename the object: it %s", name, strings.Join(found, ", "))
	}
	return nil
}
