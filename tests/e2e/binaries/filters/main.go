// What kube-scheduler's own filters say of one pod: which of them refuse which node.
//
// Reads a JSON object a line, and answers each with a line.
//
//	{"namespaces", "nodes", "bound", "pod"}
//	    a JSON list: for each node the names of the filters that refuse the pod there; or "error: ..."
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

type question struct {
	Namespaces []*corev1.Namespace `json:"namespaces"`
	Nodes      []*corev1.Node      `json:"nodes"`
	Bound      []*corev1.Pod       `json:"bound"`
	Pod        *corev1.Pod         `json:"pod"`
}

type factory = func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)

var factories = map[string]factory{
	interpodaffinity.Name:  interpodaffinity.New,
	nodeaffinity.Name:      nodeaffinity.New,
	nodename.Name:          nodename.New,
	nodeports.Name:         nodeports.New,
	noderesources.Name:     noderesources.NewFit,
	nodeunschedulable.Name: nodeunschedulable.New,
	podtopologyspread.Name: podtopologyspread.New,
	tainttoleration.Name:   tainttoleration.New,
}

var order = []string{
	nodeunschedulable.Name, nodename.Name, tainttoleration.Name, nodeaffinity.Name,
	nodeports.Name, noderesources.Name, podtopologyspread.Name, interpodaffinity.Name,
}

// The arguments that each filter has where nobody configures any.
func defaultArguments() (map[string]runtime.Object, error) {
	configuration, err := latest.Default()
	if err != nil {
		return nil, err
	}
	found := map[string]runtime.Object{}
	for _, one := range configuration.Profiles[0].PluginConfig {
		found[one.Name] = one.Args
	}
	return found, nil
}

func judge(ctx context.Context, asked question, arguments map[string]runtime.Object) ([][]string, error) {
	shared := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	for _, namespace := range asked.Namespaces {
		if err := shared.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace); err != nil {
			return nil, err
		}
	}
	snapshot := cache.NewSnapshot(asked.Bound, asked.Nodes)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(shared))
	if err != nil {
		return nil, err
	}
	every, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	refused := make([][]string, len(asked.Nodes))
	for at := range refused {
		refused[at] = []string{}
	}
	for _, name := range order {
		plugin, err := factories[name](ctx, arguments[name], handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		state := framework.NewCycleState()
		var only *fwk.PreFilterResult
		if first, ok := plugin.(fwk.PreFilterPlugin); ok {
			found, status := first.PreFilter(ctx, state, asked.Pod, every)
			if status.IsSkip() {
				continue
			}
			if status.IsRejected() {
				for at := range refused {
					refused[at] = append(refused[at], name)
				}
				continue
			}
			if !status.IsSuccess() {
				return nil, status.AsError()
			}
			only = found
		}
		filter, ok := plugin.(fwk.FilterPlugin)
		if !ok {
			return nil, fmt.Errorf("%s is no filter", name)
		}
		for at, node := range asked.Nodes {
			if !only.AllNodes() && !only.NodeNames.Has(node.Name) {
				refused[at] = append(refused[at], name)
				continue
			}
			info, err := snapshot.Get(node.Name)
			if err != nil {
				return nil, err
			}
			status := filter.Filter(ctx, state, asked.Pod, info)
			if status.IsRejected() {
				refused[at] = append(refused[at], name)
			} else if !status.IsSuccess() {
				return nil, status.AsError()
			}
		}
	}
	return refused, nil
}

func answer(line []byte, arguments map[string]runtime.Object) string {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return "error: " + err.Error()
	}
	refused, err := judge(context.Background(), asked, arguments)
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := json.Marshal(refused)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(text)
}

func main() {
	metrics.Register()
	arguments, err := defaultArguments()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		fmt.Fprintln(out, strings.ReplaceAll(answer(lines.Bytes(), arguments), "\n", " "))
	}
}
