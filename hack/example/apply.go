package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
)

// prepare creates the CRDs and the objects that the operator needs when it starts.
func (g *stage) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	crds, err := g.example.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := g.create(ctx, crd, "CRD "+crd.Spec.Names.Kind); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", g.pinned())
	if err != nil {
		return err
	}
	if err := envtest.WaitForCRDs(config, crds, envtest.CRDInstallOptions{MaxTime: installLimit}); err != nil {
		return fmt.Errorf("wait until the kinds are served: %w", err)
	}
	return g.createSamples(ctx, catalog.IsPrerequisite)
}

// applySamples creates the other samples, so that the operator sees their creation.
func (g *stage) applySamples(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	return g.createSamples(ctx, func(obj *unstructured.Unstructured) bool { return !catalog.IsPrerequisite(obj) })
}

func (g *stage) createSamples(ctx context.Context, wanted func(*unstructured.Unstructured) bool) error {
	samples, err := g.example.Objects("samples")
	if err != nil {
		return err
	}
	for _, obj := range samples {
		if !wanted(obj) {
			continue
		}
		if err := g.create(ctx, obj, "Sample "+obj.GetKind()+" "+obj.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// create creates an object unless it exists. A rejection by the API server is not an error, because some samples are invalid on purpose.
func (g *stage) create(ctx context.Context, obj client.Object, what string) error {
	err := g.client.Create(ctx, obj)
	switch {
	case err == nil:
		g.screen.Say("* " + what + ": created")
	case apierrors.IsAlreadyExists(err):
		g.screen.Say("* " + what + ": exists already, unchanged")
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		g.screen.Say("* " + what + ": rejected: " + err.Error())
	default:
		return fmt.Errorf("create %s: %w", what, err)
	}
	return nil
}
