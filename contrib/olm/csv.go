package olm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"go.podman.io/image/v5/docker/reference"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// A builder derives the files of a bundle from objects.
type builder struct {
	options   Options
	objects   *sources
	namespace string           // the namespace of the operator in the objects
	accounts  sets.Set[string] // the service accounts of the Deployments
	used      sets.Set[string] // objects that the bundle does not contain, because OLM creates them, and ports of Services
	csv       *operatorsv1alpha1.ClusterServiceVersion
	errs      []error
}

func (b *builder) addErrorf(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

// render returns the manifests of a bundle.
func render(o Options) (map[string][]byte, error) {
	objects, err := sortObjects(o.Objects)
	b := &builder{options: o, objects: objects, accounts: sets.New[string](), used: sets.New[string](), errs: o.check()}
	if err != nil {
		b.errs = append(b.errs, err)
	}
	if objects.base == nil {
		b.addErrorf("Objects has no ClusterServiceVersion: add one with displayName, description, provider, maintainers and icon")
	}
	if len(objects.deployments) == 0 {
		b.addErrorf("Objects has no Deployment: add the Deployment of the manager")
	}
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	b.csv = objects.base.DeepCopy()
	b.addDeployments()
	b.addPermissions()
	b.addKinds()
	b.addWebhooks()
	b.addHead()
	files := map[string][]byte{}
	b.addFile(files, o.Package+".clusterserviceversion", b.csv)
	for _, crd := range objects.crds {
		b.addFile(files, crd.Spec.Group+"_"+crd.Spec.Names.Plural, crd)
	}
	b.addOthers(files)
	return files, errors.Join(b.errs...)
}

// addHead sets the name, the version, the replaced and skipped versions, and the install modes.
func (b *builder) addHead() {
	o, spec := b.options, &b.csv.Spec
	b.csv.TypeMeta = metav1.TypeMeta{APIVersion: operatorsv1alpha1.ClusterServiceVersionAPIVersion, Kind: operatorsv1alpha1.ClusterServiceVersionKind}
	b.csv.Name, b.csv.Namespace = o.name(), ""
	spec.Version = version.OperatorVersion{Version: semver.MustParse(o.Version)}
	spec.Replaces = cmp.Or(o.Replaces, spec.Replaces)
	if len(o.Skips) > 0 {
		spec.Skips = o.Skips
	}
	if len(spec.InstallModes) == 0 {
		inCluster := len(spec.InstallStrategy.StrategySpec.ClusterPermissions) > 0
		for _, mode := range []operatorsv1alpha1.InstallModeType{
			operatorsv1alpha1.InstallModeTypeOwnNamespace, operatorsv1alpha1.InstallModeTypeSingleNamespace,
			operatorsv1alpha1.InstallModeTypeMultiNamespace, operatorsv1alpha1.InstallModeTypeAllNamespaces,
		} {
			isSupported := mode == operatorsv1alpha1.InstallModeTypeAllNamespaces && inCluster || mode == operatorsv1alpha1.InstallModeTypeOwnNamespace && !inCluster
			spec.InstallModes = append(spec.InstallModes, operatorsv1alpha1.InstallMode{Type: mode, Supported: isSupported})
		}
	}
}

func (b *builder) addDeployments() {
	strategy := &b.csv.Spec.InstallStrategy
	*strategy = operatorsv1alpha1.NamedInstallStrategy{StrategyName: operatorsv1alpha1.InstallStrategyNameDeployment}
	b.namespace = b.objects.deployments[0].Namespace
	for i, d := range b.objects.deployments {
		if d.Namespace != b.namespace {
			b.addErrorf("the Deployment %s is in the namespace %q, but OLM installs all in one namespace, here %q: use the same namespace", d.Name, d.Namespace, b.namespace)
		}
		if i == 0 {
			b.setImage(d)
		}
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			if problem := imageProblem(c.Image); problem != "" {
				b.addErrorf("Deployment %s: the image %q of the container %q %s", d.Name, c.Image, c.Name, problem)
			}
		}
		b.accounts.Insert(account(d))
		b.used.Insert("ServiceAccount "+account(d), "ServiceAccount "+d.Namespace+"/"+account(d))
		strategy.StrategySpec.DeploymentSpecs = append(strategy.StrategySpec.DeploymentSpecs,
			operatorsv1alpha1.StrategyDeploymentSpec{Name: d.Name, Spec: d.Spec, Label: d.Labels})
	}
}

// setImage sets the image of the manager, and the annotation containerImage.
func (b *builder) setImage(d *appsv1.Deployment) {
	containers := d.Spec.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "manager" || len(containers) == 1 })
	if i < 0 {
		if b.options.Image != "" {
			b.addErrorf("Deployment %s: no container is named \"manager\": set the image in the Deployment, and remove Image", d.Name)
		}
		return
	}
	containers[i].Image = cmp.Or(b.options.Image, containers[i].Image)
	metav1.SetMetaDataAnnotation(&b.csv.ObjectMeta, "containerImage", containers[i].Image)
}

// imageProblem returns the reason why an image is not accepted, or an empty text.
func imageProblem(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "is invalid: " + err.Error()
	}
	if reference.IsNameOnly(named) {
		return "has no tag: set Image with the tag or the digest of the version"
	}
	_, hasDigest := named.(reference.Digested)
	if tagged, ok := named.(reference.Tagged); ok && tagged.Tag() == "latest" && !hasDigest {
		return "has the tag latest, which changes: set Image with the tag or the digest of the version"
	}
	return ""
}

func account(d *appsv1.Deployment) string {
	return cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")
}

// addPermissions adds the rules of the roles that are bound to the service accounts of the Deployments. Without any bindings,
// it adds the rules of all roles.
func (b *builder) addPermissions() {
	for _, role := range b.objects.roles {
		b.checkNamespace("Role", role.Namespace, role.Name)
	}
	bound := map[string]bool{} // the names of roles; false if the bundle must also contain the role
	for _, one := range b.objects.bindings {
		b.checkNamespace(one.kind, one.namespace, one.name)
		role := qualified("ClusterRole."+rbacv1.GroupName, "", one.role.Name)
		if one.role.Kind == "Role" {
			role = qualified("Role."+rbacv1.GroupName, one.namespace, one.role.Name)
		}
		ours := slices.DeleteFunc(slices.Clone(one.subjects), func(s rbacv1.Subject) bool {
			return s.Kind != rbacv1.ServiceAccountKind || !b.accounts.Has(s.Name) || s.Namespace != "" && s.Namespace != b.namespace
		})
		switch {
		case len(ours) == 0:
			bound[role] = false
			continue
		case len(ours) < len(one.subjects):
			b.addErrorf("the %s %s is for a service account of a Deployment and for other subjects: use a second binding for the others", one.kind, one.name)
		}
		if rules, ok := b.rulesOf(one); ok {
			for _, subject := range ours {
				b.grant(subject.Name, one.kind == "ClusterRoleBinding", rules)
			}
			b.used.Insert(qualified(one.kind+"."+rbacv1.GroupName, one.namespace, one.name))
			if _, ok := bound[role]; !ok {
				bound[role] = true
			}
		}
	}
	if len(b.objects.bindings) == 0 {
		if b.accounts.Len() > 1 {
			b.addErrorf("Objects has no bindings, and Deployments with the service accounts %q: add a binding for each role", sets.List(b.accounts))
		}
		for _, role := range b.objects.clusterRoles {
			b.grant(sets.List(b.accounts)[0], true, role.Rules)
			bound[qualified("ClusterRole."+rbacv1.GroupName, "", role.Name)] = true
		}
		for _, role := range b.objects.roles {
			b.grant(sets.List(b.accounts)[0], false, role.Rules)
			bound[qualified("Role."+rbacv1.GroupName, role.Namespace, role.Name)] = true
		}
	}
	for role, isUsed := range bound {
		if isUsed {
			b.used.Insert(role)
		}
	}
	for _, name := range sets.List(b.accounts) {
		if !hasPermissions(b.csv, name) && len(b.errs) == 0 {
			b.addErrorf("the service account %s has no roles, so OLM would not create it: add the roles and bindings of the operator to Objects", name)
		}
	}
}

// hasPermissions reports whether OLM creates a service account.
func hasPermissions(csv *operatorsv1alpha1.ClusterServiceVersion, account string) bool {
	strategy := csv.Spec.InstallStrategy.StrategySpec
	return slices.ContainsFunc(slices.Concat(strategy.Permissions, strategy.ClusterPermissions), func(p operatorsv1alpha1.StrategyDeploymentPermissions) bool {
		return p.ServiceAccountName == account
	})
}

// rulesOf returns the rules of the role to which a binding refers.
func (b *builder) rulesOf(one binding) ([]rbacv1.PolicyRule, bool) {
	for _, role := range b.objects.clusterRoles {
		if one.role.Kind == "ClusterRole" && role.Name == one.role.Name {
			if role.AggregationRule != nil {
				b.addErrorf("the ClusterRole %s has an aggregationRule, and OLM needs the rules: list them in the role", role.Name)
			}
			return role.Rules, true
		}
	}
	for _, role := range b.objects.roles {
		if one.role.Kind == "Role" && role.Name == one.role.Name && role.Namespace == one.namespace {
			return role.Rules, true
		}
	}
	b.addErrorf("the %s %s refers to the %s %s, which is not in Objects: add it", one.kind, one.name, one.role.Kind, one.role.Name)
	return nil, false
}

// checkNamespace adds an error for a role or binding outside of the namespace of the operator.
func (b *builder) checkNamespace(kind, namespace, name string) {
	if namespace != "" && namespace != b.namespace {
		b.addErrorf("the %s %s is in the namespace %q, but OLM grants no permissions in other namespaces, and the operator is in %q: "+
			"use a ClusterRole with a ClusterRoleBinding", kind, name, namespace, b.namespace)
	}
}

func (b *builder) grant(account string, inCluster bool, rules []rbacv1.PolicyRule) {
	strategy := &b.csv.Spec.InstallStrategy.StrategySpec
	list := &strategy.Permissions
	if inCluster {
		list = &strategy.ClusterPermissions
	}
	for i := range *list {
		if (*list)[i].ServiceAccountName == account {
			(*list)[i].Rules = append((*list)[i].Rules, rules...)
			return
		}
	}
	*list = append(*list, operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: slices.Clone(rules)})
}

// addKinds adds the served versions of the CRDs, and the examples. Descriptions in the base have precedence.
func (b *builder) addKinds() {
	slices.SortFunc(b.objects.crds, func(one, other *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(one.Name, other.Name)
	})
	described := b.csv.Spec.CustomResourceDefinitions.Owned
	var owned []operatorsv1alpha1.CRDDescription
	for _, crd := range b.objects.crds {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			kind := operatorsv1alpha1.CRDDescription{}
			for _, d := range described {
				if d.Name == crd.Name && d.Version == v.Name {
					kind = d
				}
			}
			kind.Name, kind.Version, kind.Kind = crd.Name, v.Name, crd.Spec.Names.Kind
			kind.DisplayName = cmp.Or(kind.DisplayName, kind.Kind)
			if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
				kind.Description = cmp.Or(kind.Description, v.Schema.OpenAPIV3Schema.Description)
			}
			owned = append(owned, kind)
		}
	}
	for _, d := range described {
		if !slices.ContainsFunc(owned, func(kind operatorsv1alpha1.CRDDescription) bool {
			return kind.Name == d.Name && kind.Version == d.Version
		}) {
			b.addErrorf("the ClusterServiceVersion owns the version %q of %s, but Objects has no CRD that serves it: add the CRD", d.Version, d.Name)
		}
	}
	b.csv.Spec.CustomResourceDefinitions.Owned = owned
	if len(b.objects.samples) == 0 {
		return
	}
	var examples []map[string]any
	for _, u := range b.objects.samples {
		unstructured.RemoveNestedField(u.Object, "metadata", "namespace")
		examples = append(examples, u.Object)
	}
	text, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		b.errs = append(b.errs, err)
	}
	metav1.SetMetaDataAnnotation(&b.csv.ObjectMeta, "alm-examples", string(text))
}

// addWebhooks adds the entries of the webhook configurations, and the conversion webhooks of the CRDs.
func (b *builder) addWebhooks() {
	b.csv.Spec.WebhookDefinitions = nil
	for _, c := range b.objects.webhooks {
		kind := operatorsv1alpha1.MutatingAdmissionWebhook
		if c.Kind == "ValidatingWebhookConfiguration" {
			kind = operatorsv1alpha1.ValidatingAdmissionWebhook
		}
		for _, w := range c.Webhooks {
			b.addWebhook(kind, w.ClientConfig, w.NamespaceSelector, w.MatchConditions, operatorsv1alpha1.WebhookDescription{
				GenerateName: w.Name, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, ObjectSelector: w.ObjectSelector,
				SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, ReinvocationPolicy: w.ReinvocationPolicy,
			})
		}
	}
	for _, crd := range b.objects.crds {
		if c := crd.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter && c.Webhook != nil && c.Webhook.ClientConfig != nil {
			config := admissionregistrationv1.WebhookClientConfig{URL: c.Webhook.ClientConfig.URL}
			if s := c.Webhook.ClientConfig.Service; s != nil {
				config.Service = &admissionregistrationv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: s.Path, Port: s.Port}
			}
			b.addWebhook(operatorsv1alpha1.ConversionWebhook, config, nil, nil, operatorsv1alpha1.WebhookDescription{
				GenerateName: "convert." + crd.Name, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
				AdmissionReviewVersions: c.Webhook.ConversionReviewVersions, ConversionCRDs: []string{crd.Name},
			})
		}
	}
	for _, service := range b.objects.services {
		for _, p := range service.Spec.Ports {
			if b.used.Has(qualified("Service", service.Namespace, service.Name)) && !b.used.Has(portOf(service, p.Port)) {
				b.addErrorf("the Service %s has the port %d, which no webhook uses, and OLM creates only the ports of webhooks: move the port to another Service",
					service.Name, p.Port)
			}
		}
	}
}

// portOf returns the key of a port of a Service in the field used.
func portOf(service *corev1.Service, port int32) string {
	return fmt.Sprintf("port %d of %s/%s", port, service.Namespace, service.Name)
}

func (b *builder) addWebhook(kind operatorsv1alpha1.WebhookAdmissionType, config admissionregistrationv1.WebhookClientConfig, namespaces *metav1.LabelSelector,
	conditions []admissionregistrationv1.MatchCondition, d operatorsv1alpha1.WebhookDescription,
) {
	if namespaces != nil && len(namespaces.MatchLabels)+len(namespaces.MatchExpressions) > 0 {
		b.addErrorf("the webhook %s has a namespaceSelector, which OLM replaces: select all namespaces, with webhooks.EveryNamespace in kopf, "+
			"or let the operator write its configurations, with webhooks.Managed", d.GenerateName)
	}
	if len(conditions) > 0 {
		b.addErrorf("the webhook %s has matchConditions, which OLM omits: remove them, or let the operator write its configurations, with webhooks.Managed", d.GenerateName)
	}
	if config.Service == nil {
		b.addErrorf("the webhook %s has no Service, and OLM needs one: set clientConfig.service", d.GenerateName)
		return
	}
	i := slices.IndexFunc(b.objects.services, func(s *corev1.Service) bool { return s.Name == config.Service.Name })
	if i < 0 {
		b.addErrorf("the webhook %s refers to the Service %s, which is not in Objects: add it", d.GenerateName, config.Service.Name)
		return
	}
	service, port := b.objects.services[i], int32(443)
	if config.Service.Port != nil {
		port = *config.Service.Port
	}
	b.used.Insert(qualified("Service", service.Namespace, service.Name), portOf(service, port))
	p := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	n := slices.IndexFunc(b.objects.deployments, func(d *appsv1.Deployment) bool {
		return len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels))
	})
	if p < 0 || n < 0 {
		b.addErrorf("the webhook %s refers to the port %d of the Service %s, which has no such port, or selects no Deployment in Objects: correct the Service",
			d.GenerateName, port, service.Name)
		return
	}
	target := service.Spec.Ports[p].TargetPort
	if target == (intstr.IntOrString{}) {
		target = intstr.FromInt32(port)
	}
	d.Type, d.DeploymentName, d.ContainerPort, d.TargetPort, d.WebhookPath = kind, b.objects.deployments[n].Name, port, &target, config.Service.Path
	b.csv.Spec.WebhookDefinitions = append(b.csv.Spec.WebhookDefinitions, d)
}

// addOthers adds the objects that OLM applies, without their namespaces.
func (b *builder) addOthers(files map[string][]byte) {
	for _, u := range b.objects.others {
		if b.used.Has(nameOf(u)) {
			continue
		}
		if !isSupported(u) {
			b.addErrorf("%s: OLM does not install objects of this kind in %s, and Objects has no CRD for it: "+
				"remove the object, or add the CRD if the operator owns the kind. OLM installs: %s", nameOf(u), u.GetAPIVersion(), strings.Join(sets.List(supported), ", "))
			continue
		}
		unstructured.RemoveNestedField(u.Object, "metadata", "namespace")
		b.addFile(files, strings.ReplaceAll(strings.ToLower(u.GetKind()+"_"+u.GetName()), ":", "-"), u)
	}
}

// addFile adds an object without its status.
func (b *builder) addFile(files map[string][]byte, name string, obj any) {
	if len(content.IsPathSegmentName(name)) > 0 { // sortObjects has checked the names of objects, but not the group and the plural of a CRD
		b.addErrorf("the file %s would not be in the folder manifests: rename the object", name)
		return
	}
	name = "manifests/" + name + ".yaml"
	if files[name] != nil {
		b.addErrorf("two objects would be in the file %s: rename one of them", name)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err == nil {
		delete(fields, "status")
		files[name], err = yaml.Marshal(fields)
	}
	if err != nil {
		b.errs = append(b.errs, err)
	}
}
