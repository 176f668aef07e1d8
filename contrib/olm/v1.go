package olm

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checkV1 returns the reasons for which OLM v1 would not install the bundle. The rules come from operator-controller v1.11:
// from its renderer for the format registry+v1, its manifest provider, and its resolver.
func (b *bundle) checkV1() (problems []string) {
	in := func(file, format string, args ...any) {
		problems = append(problems, file+": OLM v1: "+fmt.Sprintf(format, args...))
	}
	addf := func(format string, args ...any) { in(b.csvFile, format, args...) }
	spec := b.csv.Spec

	deployments := sets.New[string]()
	for _, d := range spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if deployments.Has(d.Name) {
			addf("two Deployments have the name %q: rename one of them", d.Name)
		}
		deployments.Insert(d.Name)
		if found := validation.IsDNS1123Subdomain(d.Name); len(found) > 0 {
			addf("the name of the Deployment %q is invalid: rename it: %s", d.Name, strings.Join(found, ", "))
		}
	}

	crds, owned := sets.New[string](), sets.New[string]()
	for _, file := range b.files {
		switch file.obj.GroupVersionKind() {
		case csvKind:
		case crdKind:
			crds.Insert(file.obj.GetName())
		default:
			if !isSupported(file.obj) {
				in(file.name, "objects of the kind %s are not installed: remove %s", kindOf(file.obj), file.obj.GetName())
			}
		}
	}
	for _, d := range spec.CustomResourceDefinitions.Owned {
		if !crds.Has(d.Name) && !owned.Has(d.Name) {
			addf("there is no CRD for the owned kind %s: add it", d.Name)
		}
		owned.Insert(d.Name)
	}

	modes := sets.New[operatorsv1alpha1.InstallModeType]()
	for _, mode := range spec.InstallModes {
		if mode.Supported {
			modes.Insert(mode.Type)
		}
	}
	if !modes.Has(operatorsv1alpha1.InstallModeTypeAllNamespaces) {
		addf("the install mode AllNamespaces is not supported: add it to spec.installModes if the operator can handle all namespaces, or set OnlyV0 and use ValidateV0")
	}
	b.checkDependencies(in)
	b.checkWebhooks(addf, deployments, owned, modes)
	return problems
}

// checkDependencies checks that the bundle owns no aggregated APIs and needs no other bundles. OLM v1 reads the dependencies from catalogs, which contain them for each bundle.
func (b *bundle) checkDependencies(in func(file, format string, args ...any)) {
	if apis := b.csv.Spec.APIServiceDefinitions; len(apis.Owned) > 0 {
		in(b.csvFile, "aggregated APIs are not supported: remove spec.apiservicedefinitions.owned")
	}
	for _, kind := range b.csv.Spec.CustomResourceDefinitions.Required {
		in(b.csvFile, "dependencies are not supported: remove %s from spec.customresourcedefinitions.required", kind.Name)
	}
	for _, api := range b.csv.Spec.APIServiceDefinitions.Required {
		in(b.csvFile, "dependencies are not supported: remove %s from spec.apiservicedefinitions.required", api.Name)
	}
	for _, p := range b.properties {
		isDependency := strings.HasSuffix(p.file, "dependencies.yaml") && slices.Contains([]string{"olm.package", "olm.gvk"}, p.Type)
		if isDependency || slices.Contains([]string{"olm.package.required", "olm.gvk.required", "olm.constraint"}, p.Type) {
			in(p.file, "dependencies are not supported: remove the dependency of the type %s", p.Type)
		}
	}
}

// checkWebhooks checks the webhooks against the Deployments, the owned CRDs and the install modes.
func (b *bundle) checkWebhooks(addf func(format string, args ...any), deployments, owned sets.Set[string], modes sets.Set[operatorsv1alpha1.InstallModeType]) {
	names, converters := sets.New[string](), map[string]string{}
	for _, w := range b.csv.Spec.WebhookDefinitions {
		if key := string(w.Type) + " " + w.GenerateName; names.Has(key) {
			addf("two webhooks of the type %s have the name %q: rename one of them", w.Type, w.GenerateName)
		} else {
			names.Insert(key)
		}
		if found := validation.IsDNS1123Subdomain(w.GenerateName); len(found) > 0 {
			addf("the name of the webhook %q is invalid: rename it: %s", w.GenerateName, strings.Join(found, ", "))
		}
		if !deployments.Has(w.DeploymentName) {
			addf("the webhook %s refers to the Deployment %q, which does not exist: correct deploymentName", w.GenerateName, w.DeploymentName)
		}
		if w.Type != operatorsv1alpha1.ConversionWebhook {
			for _, rule := range w.Rules {
				for _, group := range rule.APIGroups {
					if group == "*" || group == "olm.operatorframework.io" {
						addf("the webhook %s has a rule for the API group %q: list other groups", w.GenerateName, group)
					}
					for _, resource := range rule.Resources {
						if group == "admissionregistration.k8s.io" && isWebhookConfiguration(resource) {
							addf("the webhook %s has a rule for %s of %s: remove the rule", w.GenerateName, resource, group)
						}
					}
				}
			}
			continue
		}
		if modes.Len() != 1 || !modes.Has(operatorsv1alpha1.InstallModeTypeAllNamespaces) {
			addf("the conversion webhook %s needs AllNamespaces as the only install mode: remove the others from spec.installModes", w.GenerateName)
		}
		for _, crd := range w.ConversionCRDs {
			if !owned.Has(crd) {
				addf("the conversion webhook %s is for the CRD %s, which the bundle does not own: add it to spec.customresourcedefinitions.owned", w.GenerateName, crd)
			}
			if other, ok := converters[crd]; ok {
				addf("the conversion webhooks %s and %s are for the same CRD %s: remove one of them", other, w.GenerateName, crd)
			}
			converters[crd] = w.GenerateName
		}
	}
	for _, crd := range b.upstream.V1CRDs {
		if name, ok := converters[crd.Name]; ok && crd.Spec.PreserveUnknownFields {
			addf("the conversion webhook %s is for the CRD %s, which has preserveUnknownFields: set it to false", name, crd.Name)
		}
	}
}

func isWebhookConfiguration(resource string) bool {
	switch strings.TrimSuffix(strings.ToLower(resource), "s") {
	case "*", "mutatingwebhookconfiguration", "validatingwebhookconfiguration":
		return true
	}
	return false
}
