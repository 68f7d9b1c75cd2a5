// What kube-scheduler's own engines for resource claims say: its CEL for selectors, its allocator for claims.
//
// Reads a JSON object a line, and answers each with a line.
//
//	{"expression", "driver", "allowMultipleAllocations", "attributes", "capacity"}
//	    true, false, "error: ..." where evaluating fails, or "refused: ..." where the expression does not compile
//	{"node", "slices", "classes", "claims", "held"}
//	    a JSON list of the results of each claim, null where there is no fit, "error: ...", or "gave up" after a second
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type question struct {
	Expression               string                                                    `json:"expression"`
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`

	Node    *corev1.Node                 `json:"node"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
	Held    []*resourceapi.ResourceClaim `json:"held"`
}

type classes []*resourceapi.DeviceClass

func (known classes) List() ([]*resourceapi.DeviceClass, error) { return known, nil }

func (known classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range known {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("there is no DeviceClass %q", name)
}

var celFeatures = cel.Features{EnableConsumableCapacity: true}

// As kube-scheduler's DynamicResources gathers it from claims (allocateddevices.go).
func allocatedState(held []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range held {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				state.AllocatedDevices.Insert(device)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
			}
		}
	}
	return state
}

func allocate(asked question) string {
	features := structured.Features{
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
		DeviceBindingAndStatus: true, ConsumableCapacity: true,
	}
	// A search may take for ever; kube-scheduler ends it after ten seconds.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	allocator, err := structured.NewAllocator(
		ctx, features, allocatedState(asked.Held), classes(asked.Classes), asked.Slices, cel.NewCache(10, celFeatures))
	if err != nil {
		return "error: " + err.Error()
	}
	found, err := allocator.Allocate(ctx, asked.Node, asked.Claims)
	if ctx.Err() != nil {
		return "gave up"
	}
	if err != nil {
		return "error: " + err.Error()
	}
	if found == nil {
		return "null"
	}
	results := make([][]resourceapi.DeviceRequestAllocationResult, 0, len(found))
	for _, one := range found {
		results = append(results, one.Devices.Results)
	}
	text, err := json.Marshal(results)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(text)
}

func matches(asked question) string {
	compiled := cel.GetCompiler(celFeatures).CompileCELExpression(asked.Expression, cel.Options{})
	if compiled.Error != nil {
		return "refused: " + compiled.Error.Detail
	}
	found, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   asked.Driver,
		AllowMultipleAllocations: asked.AllowMultipleAllocations,
		Attributes:               asked.Attributes,
		Capacity:                 asked.Capacity,
	})
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(found)
}

func answer(line []byte) string {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return "refused: " + err.Error()
	}
	if asked.Node != nil {
		return allocate(asked)
	}
	return matches(asked)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		fmt.Fprintln(out, strings.ReplaceAll(answer(lines.Bytes()), "\n", " "))
	}
}
