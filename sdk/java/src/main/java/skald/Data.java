package skald;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.BeanDescription;
import com.fasterxml.jackson.databind.DeserializationConfig;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.deser.AbstractDeserializer;
import com.fasterxml.jackson.databind.deser.BeanDeserializerBase;
import com.fasterxml.jackson.databind.deser.BeanDeserializerBuilder;
import com.fasterxml.jackson.databind.deser.BeanDeserializerModifier;
import com.fasterxml.jackson.databind.deser.CreatorProperty;
import com.fasterxml.jackson.databind.deser.DefaultDeserializationContext;
import com.fasterxml.jackson.databind.deser.impl.UnsupportedTypeDeserializer;
import com.fasterxml.jackson.databind.deser.std.ContainerDeserializerBase;
import com.fasterxml.jackson.databind.exc.InvalidDefinitionException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.util.ClassUtil;
import java.util.HashSet;
import java.util.Set;

/** What a message's data becomes. */
final class Data {
    // A number that does not fit, or is not there, is not made to fit: it may be money.
    static final JsonMapper json = JsonMapper.builder().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
        .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT).disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
        .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS, DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES,
            DeserializationFeature.FAIL_ON_NUMBERS_FOR_ENUMS)
        .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES).disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS)
        .addModule(new SimpleModule().setDeserializerModifier(new Primitives())).build();

    /** Jackson misses a number only where a constructor takes it: elsewhere 0 would stay, and the step would complete with it. */
    private static final class Primitives extends BeanDeserializerModifier {
        @Override public BeanDeserializerBuilder updateBuilder(DeserializationConfig config, BeanDescription read, BeanDeserializerBuilder made) {
            made.getProperties().forEachRemaining(member -> {
                Class<?> type = member.getType().getRawClass();
                if (type.isPrimitive() && !(member instanceof CreatorProperty)) throw new IllegalArgumentException("it would not say that "
                    + member.getName() + " is missing: make " + read.getBeanClass().getSimpleName() + " a record, or "
                    + member.getName() + " a " + ClassUtil.wrapperType(type).getSimpleName());
            });
            return made;
        }
    }

    private Data() {}

    /** What is the class's fault is not called malformed: each message would be, and nothing is wrong with them. */
    static <D> D read(JsonNode document, Class<D> type) throws InvalidDefinitionException {
        try {
            return json.treeToValue(document, type);
        } catch (InvalidDefinitionException fault) {
            throw fault;
        } catch (JsonProcessingException wrong) {
            throw new Malformed(wrong.getOriginalMessage());
        }
    }

    /** Refuses a class of which Jackson knows without data that it can't read it. */
    static void check(String step, Class<?> type) {
        String place = "step " + step + ": Jackson can't read " + type.getName();
        try {
            var context = ((DefaultDeserializationContext) json.getDeserializationContext()).createDummyInstance(json.getDeserializationConfig());
            JsonDeserializer<?> reader = context.findRootValueDeserializer(json.constructType(type));
            if (reader instanceof AbstractDeserializer
                || reader instanceof BeanDeserializerBase bean && !bean.getValueInstantiator().canInstantiate())
                throw new IllegalArgumentException(place + ": it can't make an instance of it; take a record");
            check(reader, place, new HashSet<>());
        } catch (JsonMappingException wrong) {
            throw new IllegalArgumentException(place + ": " + wrong.getOriginalMessage(), wrong);
        }
    }

    private static void check(JsonDeserializer<?> reader, String place, Set<Object> seen) {
        if (!seen.add(reader)) return;
        if (reader instanceof UnsupportedTypeDeserializer) throw new IllegalArgumentException(place + ", of the type "
            + reader.handledType().getName() + ": take String, say, or annotate it with @JsonDeserialize or @JsonIgnore");
        if (reader instanceof ContainerDeserializerBase<?> several) check(several.getContentDeserializer(), place, seen);
        if (reader instanceof BeanDeserializerBase bean) bean.properties().forEachRemaining(member -> {
            if (!member.isIgnorable()) check(member.getValueDeserializer(), place + "." + member.getName(), seen);
        });
    }
}
