package examples

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// read returns the current state of the object.
func (o object) read() (*unstructured.Unstructured, error) {
	obj := o.manifest.DeepCopy()
	return obj, o.client.Get(o.t.Context(), client.ObjectKeyFromObject(obj), obj)
}

// row returns the cells of the object in `kubectl get`, without its age. The API server renders the table.
func (o object) row() (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return "", err
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	defer web.CloseIdleConnections()
	mapping, err := o.client.RESTMapper().RESTMapping(o.manifest.GroupVersionKind().GroupKind())
	if err != nil {
		return "", err
	}
	gvr := mapping.Resource
	url := fmt.Sprintf("%s/apis/%s/%s/namespaces/%s/%s/%s", config.Host, gvr.Group, gvr.Version, o.manifest.GetNamespace(), gvr.Resource, o.manifest.GetName())
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := web.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var table metav1.Table
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		return "", err
	}
	if len(table.Rows) != 1 {
		return "", fmt.Errorf("%s: want one row, got %d", response.Status, len(table.Rows))
	}
	var cells []string
	for i, cell := range table.Rows[0].Cells {
		if cell != nil && table.ColumnDefinitions[i].Name != "Age" {
			cells = append(cells, fmt.Sprint(cell))
		}
	}
	return strings.Join(cells, " "), nil
}

// checkPage checks that a page shows a line with these words in this order.
func (e *example) checkPage(file, words string) {
	e.t.Helper()
	shown := slices.ContainsFunc(strings.Split(read(e.t, file), "\n"), func(line string) bool {
		return strings.Contains(strings.Join(strings.Fields(line), " "), words)
	})
	if !shown {
		e.t.Errorf("%s does not show %q", file, words)
	}
}
